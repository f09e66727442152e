"""Sends a tensor at a place that its dtype cannot be read from: half of a complex number further.

group: lie about types
target: tensor_memory
tests: storage_bytes
status: crashed
holds: a tensor that the grader computes with is aligned, because torch would end the grader's process.
"""

import json
import os
import sys

import torch

# The codec cannot be imported, but a caller of this module has it.
frame = sys._getframe()
while "protocol" not in frame.f_globals:
    frame = frame.f_back
protocol = frame.f_globals["protocol"]
tensors = protocol.READERS["tensor"].__globals__


def reply(place):
    """An answer with two complex numbers."""
    tensor = [tensors["NUMBER_OF_DTYPE"][torch.complex128], place, 2]
    return json.dumps({"dict": {"id": 1, "value": {"tensor": tensor}}}).encode()


# At another place, they are an answer.
assert protocol.decode(reply(16), memoryview(bytearray(48)))["value"].tolist() == [0, 0]
head = reply(8)
os.write(3, protocol.HEADER.pack(len(head), 48) + head + bytes(48))
os._exit(0)
