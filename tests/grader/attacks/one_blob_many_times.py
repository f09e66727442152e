"""Sends an answer of a megabyte whose two thousand byte strings are all the same megabyte.

group: lie about types
target: tensor_memory
tests: storage_bytes_is_the_whole_storage
status: crashed
holds: the byte strings of an answer are at most as long as its body, however often it names a part.
"""

import json
import os
import sys

# The codec cannot be imported, but a caller of this module has it.
frame = sys._getframe()
while "protocol" not in frame.f_globals:
    frame = frame.f_back
protocol = frame.f_globals["protocol"]

SIZE = 1_000_000


def reply(count):
    """An answer that names the same bytes many times."""
    return json.dumps(
        {"dict": {"id": 1, "value": {"list": [{"bytes": [0, SIZE]}] * count}}}
    ).encode()


# To name them once is an answer.
assert len(protocol.decode(reply(1), memoryview(bytearray(SIZE)))["value"]) == 1
head = reply(2000)
frame = protocol.HEADER.pack(len(head), SIZE) + head + bytes(SIZE)
while frame:
    frame = frame[os.write(3, frame) :]
os._exit(0)
