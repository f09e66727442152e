"""Answers with a dict of the right field names whose values have types that no probe returns.

group: lie about types
target: linear
status: crashed
holds: a forged field counts as the student's crash, never as a fault of the grader.
"""

import os
import sys

# The codec cannot be imported, but a caller of this module has it.
frame = sys._getframe()
while "protocol" not in frame.f_globals:
    frame = frame.f_back
protocol = frame.f_globals["protocol"]

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
answer = {"id": 1, "value": dict.fromkeys(names, 5)}
os.write(3, b"".join(protocol.encode(answer)))
os._exit(0)
