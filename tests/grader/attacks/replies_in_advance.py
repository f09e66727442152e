"""Sends a thousand answers before the questions.

group: forge the verdict
target: tensor_memory
tests: storage_bytes
status: crashed, failed
holds: an answer counts only for the question whose id it carries, and it has to be right.
"""

import json
import os
import struct

for number in range(1000):
    answer = {"dict": [["id", number], ["value", True]]}
    head = json.dumps({"value": answer, "blobs": []}).encode()
    os.write(3, struct.pack("!IQ", len(head), 0) + head)
