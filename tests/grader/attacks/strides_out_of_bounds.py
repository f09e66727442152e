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
import sys

import torch

# The codec cannot be imported, but a caller of this module has it.
frame = sys._getframe()
while "protocol" not in frame.f_globals:
    frame = frame.f_back
protocol = frame.f_globals["protocol"]
tensors = protocol.READERS["tensor"].__globals__


def reply(shape, stride, offset):
    """An answer whose tensor shows a storage of 16 bytes."""
    view = [tensors["NUMBER_OF_DTYPE"][torch.float32], offset, 0, 16, *shape, *stride]
    return json.dumps({"dict": {"id": 1, "value": {"view": view}}}).encode()


# A tensor that stays inside its storage is an answer.
assert protocol.decode(reply([4], [1], 0), memoryview(bytearray(16)))["value"].tolist() == [0] * 4
head = reply(*random.choice([
    ([1000], [1], 0), ([2], [2**61], 0), ([2, 2], [2**61, 2**61], 0), ([1], [1], 2**60), ([2], [-1], 3), ([-1], [1], 0),
    ([2**40], [0], 0), ([2**31, 2**33], [0, 0], 0), ([4], [1, 1], 0), ([1.0], [1], 0), ([True], [1], 0), ([0], [1], -1),
]))  # fmt: skip
os.write(3, protocol.HEADER.pack(len(head), 16) + head + bytes(16))
os._exit(0)
