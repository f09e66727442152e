"""Sends malformed replies, with fields missing or of the wrong type, each from a list of odd values.

group: forge the verdict
target: linear
status: crashed, policy
holds: a malformed reply counts as the student's crash, never as a grader fault or an expected error.
"""

import json
import os
import random
import struct

tensor = {"tensor": ["uint8", [4], [1], 0, 0]}
odd = [
    tensor,
    None,
    -1,
    True,
    0.5,
    "x",
    {"list": [1]},
    {"dict": []},
    {"dict": [[1, tensor]]},
    {"other": "x"},
]


def some(*required):
    return {"dict": [[name, random.choice(odd)] for name in required]}


raised = {
    "dict": [
        ["kinds", random.choice(odd)],
        ["text", "x"],
        ["type", random.choice(odd)],
        ["errno", tensor],
        ["where", tensor],
    ]
}
answer = random.choice([
    some("id", "value"), {"dict": [["id", 1]]}, {"dict": [["id", 1], ["raised", random.choice(odd)]]},
    {"dict": [["id", 1], ["raised", raised]]}, {"dict": [["id", 1], ["policy", random.choice(odd)]]},
    {"dict": [["id", 1], ["policy", some("name", "where")]]}, {"dict": [["id", 1], ["unsendable", random.choice(odd)]]},
    random.choice(odd),
])  # fmt: skip
head = json.dumps({"value": answer, "blobs": [[0, 4]]}).encode()
os.write(3, struct.pack("!IQ", len(head), 4) + head + bytes(4))
os._exit(0)
