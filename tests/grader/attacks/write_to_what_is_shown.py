"""Tries to write to every file of the worker, the probes and the libraries, and to replace it.

group: inject code
target: tensor_memory
tests: storage_bytes_is_the_whole_storage
status: failed
holds: everything visible in the sandbox is read-only, whatever its permissions say.
"""

import os
import sys

import einops
import torch

tops = (
    "/runtime",
    *(path for path in sys.path if os.getcwd() not in path),
    *(os.path.realpath(os.path.dirname(module.__file__)) for module in (torch, einops, os)),
    os.path.dirname(sys.executable),
    "/etc",
    "/usr/lib64",
    "/proc/sys/kernel",
    "/dev",
)
got = []
for top in tops:
    for folder, folders, files in os.walk(top):
        del folders[20:]
        for name in files[:50]:
            path = os.path.join(folder, name)
            try:
                os.chmod(path, 0o777)
            except OSError:
                pass
            if os.path.isfile(path):
                try:
                    open(path, "r+b").close()
                    got.append(path)
                except OSError:
                    pass
        try:
            open(os.path.join(folder, "attack-escaped"), "w").close()
            got.append(folder)
        except OSError:
            pass
raise LookupError(f"BREACH: {got[:5]}" if got else "nothing")
