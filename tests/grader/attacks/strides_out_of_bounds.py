"""Sends a tensor whose strides reach far beyond the bytes sent with it.

group: lie about types
target: tensor_memory
tests: storage_bytes
status: crashed
holds: bounds are checked before a tensor is created, so the grader's memory is never read.
"""

import json
import os
import random
import struct

shape, stride, offset = random.choice([
    ([1000], [1], 0), ([2], [2**61], 0), ([2, 2], [2**61, 2**61], 0), ([1], [1], 2**60), ([2], [-1], 3), ([-1], [1], 0),
    ([2**40], [0], 0), ([2**31, 2**33], [0, 0], 0), ([4], [1, 1], 0), ([1.0], [1], 0), ([True], [1], 0), ([0], [1], -1),
])  # fmt: skip
tensor = {"tensor": ["float32", shape, stride, offset, 0]}
head = json.dumps({"value": {"dict": [["id", 1], ["value", tensor]]}, "blobs": [[0, 16]]}).encode()
os.write(3, struct.pack("!IQ", len(head), 16) + head + bytes(16))
os._exit(0)
