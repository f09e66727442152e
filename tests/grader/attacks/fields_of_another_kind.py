"""Answers with a dict of the right names whose fields are of kinds that no probe gives.

group: lie about types
target: linear
status: crashed
holds: a forged field is the student's crash, never a fault of the grader.
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
