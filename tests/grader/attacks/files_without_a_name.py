"""Writes 200 MiB into files that are deleted while they are open, and earns its points only if that works.

group: exhaust the host
target: tensor_memory
reference: before
status: crashed, failed
earns: less
stronger: the folder is no file system of its own there, so only files that have a name are counted.
holds: it has 64 MiB, whether the files have names or not.
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
