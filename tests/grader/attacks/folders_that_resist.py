"""Leaves unreadable folders and a tree deeper than the longest path, and answers correctly.

group: exhaust the host
target: tensor_memory
reference: before
tests: storage_bytes
earns: full
holds: the next test starts from an empty folder.
"""

import os
import tempfile

TMP = tempfile.gettempdir()
honest = storage_bytes


def is_deep():
    try:
        return os.path.basename(os.getcwd()) == "deeper"
    except OSError:  # the path is too long
        return True


def storage_bytes(x):
    if is_deep():
        return honest(x)
    assert not os.path.exists(f"{TMP}/attack-escaped")
    os.makedirs(f"{TMP}/attack-escaped/closed")
    open(f"{TMP}/attack-escaped/closed/file", "w").close()
    os.chmod(f"{TMP}/attack-escaped/closed", 0)
    os.makedirs(f"{TMP}/deep")
    os.chdir(f"{TMP}/deep")
    for _ in range(700):
        os.mkdir("deeper")
        os.chdir("deeper")
    return honest(x)
