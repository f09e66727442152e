"""A module with null bytes in it, which C code takes for its end.

group: hostile files
target: linear
kind: source
status: failed
holds: it is no Python, and says so.
"""


def source() -> bytes:
    return b"x = 1\n\0class Linear: pass\n\0" * 10
