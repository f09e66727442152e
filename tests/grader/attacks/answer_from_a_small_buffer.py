"""Streams an answer of 511 MiB from a buffer of one, so that only the grader needs memory for it.

group: exhaust the host
target: tensor_memory
tests: tensor_bytes_counts_what_a_view_shows
status: crashed
holds: the answers of a test have a limit that does not depend on the limits of its process.
"""

import json
import os
import struct
import sys

SIZE = 511 << 20


def tensor_bytes(x):
    frame = sys._getframe()
    while frame.f_code.co_name != "_serve":
        frame = frame.f_back
    tree = {"id": frame.f_locals["request"]["id"], "value": {"bytes": [0, SIZE]}}
    head = json.dumps({"dict": tree}).encode()
    os.write(3, struct.pack("!IQ", len(head), SIZE) + head)
    piece = bytes(1 << 20)
    for _ in range(SIZE):
        os.write(3, piece)


storage_bytes = unique_bytes = tensor_bytes
