"""Prints a hundred megabytes, and answers correctly.

group: exhaust the host
target: tensor_memory
reference: before
tests: storage_bytes_is_the_whole_storage
earns: full
holds: output past the limit is read and dropped; it costs no memory, and no answer is lost.
"""

import os

honest = storage_bytes


def storage_bytes(x):
    for _ in range(100):
        os.write(1, b"x" * 2**19)
        os.write(2, b"\x1b[2J" * 2**17)
    return honest(x)
