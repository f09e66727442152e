"""Writes until the disk is full, in many files.

group: exhaust the host
target: tensor_memory
status: crashed
holds: it has 64 MiB, all files together, and the next test finds them empty.
"""


import tempfile


def storage_bytes(x):
    for number in range(1000):
        with open(f"{tempfile.gettempdir()}/attack-escaped-{number}", "wb") as f:
            f.write(bytes(2**20))
