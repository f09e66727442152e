"""Sends malformed replies, with fields missing or of the wrong type, each from a list of odd values.

group: forge the verdict
target: linear
status: crashed, policy
holds: a malformed reply counts as the student's crash, never as a grader fault or an expected error.
"""

import os
import random
import sys

import torch

# The codec cannot be imported, but a caller of this module has it.
frame = sys._getframe()
while "protocol" not in frame.f_globals:
    frame = frame.f_back
protocol = frame.f_globals["protocol"]

tensor = torch.zeros(4, dtype=torch.uint8)
odd = [tensor, None, -1, True, 0.5, "x", [1], {}, {1: tensor}, object()]


def some(*required):
    return {name: random.choice(odd) for name in required}


raised = {
    "kinds": random.choice(odd),
    "text": "x",
    "type": random.choice(odd),
    "errno": tensor,
    "where": tensor,
}
answer = random.choice([
    some("id", "value"), {"id": 1}, {"id": 1, "raised": random.choice(odd)},
    {"id": 1, "raised": raised}, {"id": 1, "policy": random.choice(odd)},
    {"id": 1, "policy": some("name", "where")}, {"id": 1, "unsendable": random.choice(odd)},
    random.choice(odd),
])  # fmt: skip
os.write(3, b"".join(protocol.encode(answer)))
os._exit(0)
