"""Sends an answer of ten megabytes whose two thousand byte strings are all the same ten megabytes.

group: lie about types
target: tensor_memory
tests: storage_bytes_of_another_dtype
status: crashed
holds: the byte strings of an answer have the maximum size of a frame, however often it names a part.
"""

import json
import os
import struct

SIZE = 10_000_000

answer = {"dict": [["id", 1], ["value", {"list": [{"bytes": 0}] * 2000}]]}
head = json.dumps({"value": answer, "blobs": [[0, SIZE]]}).encode()
frame = struct.pack("!IQ", len(head), SIZE) + head + bytes(SIZE)
while frame:
    frame = frame[os.write(3, frame) :]
os._exit(0)
