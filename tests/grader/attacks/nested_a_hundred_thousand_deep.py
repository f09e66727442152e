"""A module with expressions nested so deep that parsing them overflows the stack.

group: hostile files
target: tensor_memory
kind: source
status: failed, crashed, memory
holds: the source is parsed where it can harm nobody else.
"""

import random


def source() -> bytes:
    n = 100_000
    return (
        random.Random(0).choice([b"(" * n + b")" * n, b"-" * n + b"1", b"x" + b"[0]" * n])
        + b"\n"
        + b"x"
        + b".a" * n
        + b"\n"
    )
