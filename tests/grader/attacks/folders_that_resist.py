"""Leaves folders that nobody may enter, and a tree deeper than any path may be long, after honest answers.

group: exhaust the host
target: tensor_memory
reference: before
earns: full
holds: the next test starts from an empty folder.
"""

import os

honest = storage_bytes


def storage_bytes(x):
    if os.path.basename(os.getcwd()) == "deeper":
        return honest(x)
    assert not os.path.exists("/tmp/attack-escaped")
    os.makedirs("/tmp/attack-escaped/closed")
    open("/tmp/attack-escaped/closed/file", "w").close()
    os.chmod("/tmp/attack-escaped/closed", 0)
    os.makedirs("/tmp/deep")
    os.chdir("/tmp/deep")
    for _ in range(1500):
        os.mkdir("deeper")
        os.chdir("deeper")
    return honest(x)
