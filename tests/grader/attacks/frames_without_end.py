"""Sends an answer that claims to be exabytes long, one that never ends, or one nested too deep to be read.

group: lie about types
target: tensor_memory
tests: storage_bytes_of_another_dtype
status: crashed
holds: no memory is allocated because a header claims a size, and every frame has a maximum size.
"""

import json
import os
import random
import struct

deep = b"[" * 1_000_000
keys = json.dumps(
    {"value": {"dict": [[k * (2**61 - 1), 0] for k in range(100_000)]}, "blobs": []}
).encode()
digits = b'{"blobs": [], "value": ' + b"9" * 1_000_000 + b"}"
os.write(3, random.choice([
    struct.pack("!IQ", 2**32 - 1, 2**64 - 1), struct.pack("!IQ", 0, 2**62), struct.pack("!IQ", 0, 0), b"\xff" * 1_000_000,
    struct.pack("!IQ", len(deep), 0) + deep, struct.pack("!IQ", len(keys), 0) + keys, b'{"value": 4}\n' * 1000,
    struct.pack("!IQ", len(digits), 0) + digits,
]))  # fmt: skip
os._exit(0)
