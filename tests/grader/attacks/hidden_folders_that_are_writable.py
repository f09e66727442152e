"""Tries to write into every folder that it can find, above all into those that hide packages or lie in memory.

group: exhaust the host
target: tensor_memory
tests: storage_bytes_is_the_whole_storage
status: failed
ordinary: the folder that hides installed packages belongs to the user who runs the grader.
holds: one folder is writable, whoever runs the grader.
"""

import os
import sys
import tempfile

TMP = os.path.realpath(tempfile.gettempdir())
HIDING = [
    f"{prefix}/lib/python{sys.version_info[0]}.{sys.version_info[1]}/{name}"
    for prefix in {sys.base_prefix, sys.prefix, "/usr", "/usr/local", "/python"}
    for name in ("site-packages", "dist-packages", "")
]


def folders():
    """The folders of the file system, up to a depth that shows every mount."""
    yield from HIDING
    try:
        with open("/proc/self/mountinfo", "rb") as f:
            yield from (os.fsdecode(line.split()[4]) for line in f)
    except OSError:
        pass
    for top, below, _ in os.walk("/"):
        yield top
        if top.count("/") > 5 or top.startswith("/proc"):
            below.clear()


def storage_bytes(x):
    wrote = set()
    for folder in {*folders()}:
        if os.path.realpath(folder).startswith(TMP):
            continue
        try:
            open(f"{folder}/attack-escaped", "w").close()
            wrote.add(folder)
        except OSError:
            pass
    for name in ("/dev/ptmx", "/dev/pts/ptmx"):
        try:
            os.open(name, os.O_RDWR | os.O_NOCTTY)
            wrote.add(name)
        except OSError:
            pass
    raise LookupError(f"BREACH: {sorted(wrote)}" if wrote else "nothing")


tensor_bytes = unique_bytes = storage_bytes
