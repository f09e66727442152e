"""Creates empty files until no inodes are left.

group: exhaust the host
target: tensor_memory
tests: storage_bytes_is_the_whole_storage
status: crashed
holds: the number of files is limited as well as their size.
"""

import tempfile


def storage_bytes(x):
    for number in range(10**9):
        open(f"{tempfile.gettempdir()}/attack-escaped-{number}", "w").close()
