"""Answers each tensor with a value that is allowed, but hard to compute with, to compare or to print.

group: lie about types
target: autograd
reference: before
status: failed, crashed
earns: less
holds: whatever a look at an answer raises is a wrong answer in one test; it does not end the grade.
"""

import itertools
import sys

import torch

frame = sys._getframe()
while frame.f_code.co_name != "_serve":
    frame = frame.f_back
protocol = frame.f_globals["protocol"]
tensors = protocol.READERS["tensor"].__globals__
NUMBER, NOWHERE = tensors["NUMBER_OF_DTYPE"], tensors["NOWHERE"]
D, HALF, BYTE = (NUMBER[getattr(torch, n)] for n in ("float64", "float16", "float8_e4m3fn"))
Z, LONG, BOOL = (NUMBER[getattr(torch, n)] for n in ("complex128", "uint64", "bool"))
ODD = [
    lambda at: {"view": [BYTE, 0, at, 16, *[6] * 8, *[0] * 8]},  # a million entries to print
    lambda at: {"tensor": [BYTE, at, 64]},  # NaN
    lambda at: {"tensor": [HALF, at, 32]},
    lambda at: {"tensor": [Z, at, 2, 2]},
    lambda at: {"tensor": [LONG, at, 8]},
    lambda at: {"tensor": [BOOL, at, 64]},  # bytes that are neither 0 nor 1
    lambda at: {"view": [D, 0, at, 64, *[1] * 64, *[0] * 64]},
    lambda at: {"view": [D, 5, at, 64, 2**40, 0, 1, 1]},
    lambda at: {"view": [D, 0, NOWHERE, 0, 2**29, 2**29, 2**29, 1]},
    lambda at: {"array": ["<f16", [4], at, 64]},  # no long double has these bits
    lambda at: {"array": [">c16", [0, 2**58], at, 0]},
    lambda at: {"pairs": [[{"view": [BYTE, 0, at, 16, *[6] * 8, *[0] * 8]}, 10**4299]]},
    lambda at: {"pairs": [[float("nan"), {"other": "\ud800\x1b[31m"}]]},
    lambda at: {"list": [{"bytes": [at, 64]}, -(10**4298), 1e308, "\ud800"]},
]
turns = itertools.count()


def write(encoder, value, depth):
    """Another value for each tensor, and in each test, because each test has another seed."""
    number = frame.f_locals["request"]["seed"] + next(turns)
    return ODD[number % len(ODD)](encoder.blob(b"\xff\x7f\xf1\x9a" * 16))


protocol.WRITERS[torch.Tensor] = protocol.WRITERS[torch.nn.Parameter] = write
