"""A module with null bytes, which C code takes for the end of the text.

group: hostile files
target: linear
kind: source
status: failed
holds: the module is rejected as invalid Python, with a message that says so.
"""


def source() -> bytes:
    return b"x = 1\n\0class Linear: pass\n\0" * 10
