"""Gives its processes, threads and files names that are not UTF-8, or that look like fields of /proc, while the zygote looks at them.

group: survive or spread
target: tensor_memory
tests: storage_bytes_is_the_whole_storage
status: failed
holds: nothing outside reads a name as text, so the zygote of this box and those of others go on.
"""

import ctypes
import os
import tempfile
import threading
import time

PR_SET_NAME = 15
NAMES = [b"\xff\xfe", b"x\nUid:\t0\t0\t0", b") R 1 1 1", b"x\n1 kB\xff", b""]


def rename(name):
    ctypes.CDLL(None).prctl(PR_SET_NAME, name, 0, 0, 0)


def in_a_thread():
    rename(b"\xff\xff")
    time.sleep(20)


def storage_bytes(x):
    for name in NAMES:
        folder = os.fsencode(tempfile.gettempdir()) + b"/" + name.replace(b"/", b"") + b"\xff"
        os.mkdir(folder)
        open(folder + b"/\n\xfe", "w").close()
        if os.fork() == 0:
            threading.Thread(target=in_a_thread).start()
            rename(name)
            time.sleep(20)
    rename(b"\xff\xfe")
    end = time.monotonic() + 2
    while time.monotonic() < end:
        pass
    raise LookupError("nothing")


tensor_bytes = unique_bytes = storage_bytes
