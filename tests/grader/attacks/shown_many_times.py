"""Sends a small answer that shows the same megabyte four thousand times, as tensors, views or arrays.

group: exhaust the host
target: tensor_memory
tests: storage_bytes_is_the_whole_storage
status: crashed
holds: an answer shows no more bytes than it may have, so that a test which copies it needs little memory.
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
F = protocol.READERS["tensor"].__globals__["NUMBER_OF_DTYPE"][torch.float32]

SIZE = 2**20
KINDS = [
    {"tensor": [F, 0, SIZE // 4]},
    {"view": [F, 0, 0, SIZE, SIZE // 4, 1]},
    {"view": [F, 3, 0, 16, SIZE // 4, 0]},
    {"array": ["<f4", [SIZE // 4], 0, SIZE]},
]


def reply(part, count):
    """An answer that shows the same bytes many times."""
    return json.dumps({"dict": {"id": 1, "value": {"list": [part] * count}}}).encode()


# To show them a few times is an answer.
most = protocol.MAX_ANSWER_BYTES
for kind in KINDS:
    assert len(protocol.decode(reply(kind, 16), memoryview(bytearray(SIZE)), most)["value"]) == 16
head = reply(random.choice(KINDS), 4000)
frame = protocol.HEADER.pack(len(head), SIZE) + head + bytes(SIZE)
while frame:
    frame = frame[os.write(3, frame) :]
os._exit(0)
