"""Checks whether files of the host exist and how large they are; earns its points only if it learns something.

group: read the answers
target: tensor_memory
reference: before
status: failed
stronger: Landlock denies reading a file, but not looking up its name, size or owner.
holds: files outside the sandbox have no name in it.
"""

import os

learned = []
for path in ("/etc/shadow", "/root", "/var/log", "/home", "/bin/sh", "/usr/share"):
    try:
        learned.append((path, os.stat(path).st_size))
    except OSError:
        pass
if not learned:
    raise LookupError("nothing is there")
