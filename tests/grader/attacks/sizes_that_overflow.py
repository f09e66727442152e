"""Answers with tensors whose sizes, strides or offsets overflow when they are multiplied in 64 bits.

group: lie about types
target: autograd
reference: before
status: crashed
earns: less
holds: every number is checked before torch or NumPy sees it; the grader's memory is not read, and no other problem is affected.
"""

import sys

import torch

frame = sys._getframe()
while frame.f_code.co_name != "_serve":
    frame = frame.f_back
protocol = frame.f_globals["protocol"]
tensors = protocol.READERS["tensor"].__globals__
D = tensors["NUMBER_OF_DTYPE"][torch.float64]
NOWHERE = tensors["NOWHERE"]
# Each is made for a body of 32 bytes at this place.
LIES = [
    lambda at: {"tensor": [D, at, 2**61 + 4]},  # 2**64 + 32 bytes
    lambda at: {"tensor": [D, at, 4, 2**59 + 1]},
    lambda at: {"tensor": [D, at, 2**62, 0]},
    lambda at: {"view": [D, 2**61, at, 32, 0, 1]},
    lambda at: {"view": [D, 2**61, 0, 0, 0, 1]},
    lambda at: {"view": [D, 0, at, 32, 0, 2**61, 2**61, 1, 1, 1]},
    lambda at: {"view": [D, 0, at, 32, 2, 2**61 + 1]},
    lambda at: {"view": [D, 0, at, 32, 2, 2**64 - 1]},  # -1 in 64 bits
    lambda at: {"view": [D, 3, at, 32, 2, 2**61 - 1]},
    lambda at: {"view": [D, 0, NOWHERE, 0, 2**61, 1]},
    lambda at: {"view": [D, 0, NOWHERE, 0, 2, 2**62 - 1]},
    lambda at: {"view": [D, 2**70, NOWHERE, 0, 2, 1]},
    lambda at: {"view": [D, 0, -1.0, 0, 2, 1]},
    lambda at: {"array": ["<f8", [2**61 + 4], at, 32]},
    lambda at: {"array": ["<f8", [0, 2**62], at, 0]},
    lambda at: {"array": ["<f8", [4], at, 2**64 + 32]},
    lambda at: {"tensor": [True, at, 8]},
    lambda at: {"view": [1.0, 0, at, 32, 8, 1]},
]


def write(encoder, value, depth):
    """The same lie in all answers of a test, and another one in the next test."""
    return LIES[frame.f_locals["request"]["seed"] % len(LIES)](encoder.blob(bytes(32)))


protocol.WRITERS[torch.Tensor] = protocol.WRITERS[torch.nn.Parameter] = write
