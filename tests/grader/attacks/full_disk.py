"""Writes many files until the disk is full.

group: exhaust the host
target: tensor_memory
tests: storage_bytes
status: crashed
holds: all files together are limited to 64 MiB, and the next test starts with an empty disk.
"""

import tempfile


def storage_bytes(x):
    for number in range(1000):
        with open(f"{tempfile.gettempdir()}/attack-escaped-{number}", "wb") as f:
            f.write(bytes(2**20))
