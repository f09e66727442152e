"""Answers with a dict of the right field names whose values have types that no probe returns.

group: lie about types
target: linear
status: crashed
holds: a forged field counts as the student's crash, never as a fault of the grader.
"""

import json
import os
import struct

names = [
    "args",
    "names",
    "weights",
    "trainable",
    "state",
    "output",
    "weight_gradients",
    "x_gradient",
    "x",
    "all",
]
answer = {"dict": [["id", 1], ["value", {"dict": [[name, 5] for name in names]}]]}
head = json.dumps({"value": answer, "blobs": []}).encode()
os.write(3, struct.pack("!IQ", len(head), 0) + head)
os._exit(0)
