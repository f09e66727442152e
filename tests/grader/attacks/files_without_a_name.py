"""Writes 200 MiB into open files that it has deleted, and earns its points only if that works.

group: exhaust the host
target: tensor_memory
reference: before
tests: storage_bytes
status: crashed, failed
earns: less
stronger: at the second level the folder is not a file system of its own, so only files with a name are counted.
holds: all files together are limited to 64 MiB, with or without names.
"""

import os
import tempfile

honest = storage_bytes


def storage_bytes(x):
    nameless = []
    for number in range(5):
        file = open(os.path.join(tempfile.gettempdir(), str(number)), "wb")
        os.unlink(file.name)
        for _ in range(40):
            file.write(bytes(2**20))
        nameless.append(file)
    return honest(x)
