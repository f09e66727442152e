"""Sends an answer that claims to be exabytes long, one that never ends, or one nested too deep to be read.

group: lie about types
target: tensor_memory
tests: storage_bytes_is_the_whole_storage
status: crashed
holds: no memory is allocated because a header claims a size, and every frame has a maximum size.
"""

import json
import os
import random
import sys

# The codec cannot be imported, but a caller of this module has it.
frame = sys._getframe()
while "protocol" not in frame.f_globals:
    frame = frame.f_back
protocol = frame.f_globals["protocol"]

deep = b"[" * 1_000_000
keys = json.dumps({"pairs": [[k * (2**61 - 1), 0] for k in range(100_000)]}).encode()
digits = b"9" * 1_000_000
# Fewer of them are an answer.
assert [protocol.decode(head, memoryview(b"")) for head in (b'{"pairs":[[7,0]]}', b"99")] == [
    {7: 0},
    99,
]
os.write(3, random.choice([
    protocol.HEADER.pack(2**32 - 1, 2**64 - 1), protocol.HEADER.pack(0, 2**62), protocol.HEADER.pack(0, 0), b"\xff" * 1_000_000,
    protocol.HEADER.pack(len(deep), 0) + deep, protocol.HEADER.pack(len(keys), 0) + keys, b'{"value": 4}\n' * 1000,
    protocol.HEADER.pack(len(digits), 0) + digits,
]))  # fmt: skip
os._exit(0)
