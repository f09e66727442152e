"""Writes 200 MiB into open files that it has deleted, and earns its points only if that works.

group: exhaust the host
target: tensor_memory
reference: before
tests: storage_bytes
status: crashed, failed
earns: less
holds: all files together are limited to 64 MiB, with or without names.
"""

import os
import tempfile
import time

honest = storage_bytes


def storage_bytes(x):
    nameless = []
    for number in range(5):
        file = open(os.path.join(tempfile.gettempdir(), str(number)), "wb")
        os.unlink(file.name)
        for _ in range(40):
            file.write(bytes(2**20))
        nameless.append(file)
    end = time.process_time() + 1
    while time.process_time() < end:  # so that the second level looks
        pass
    return honest(x)
