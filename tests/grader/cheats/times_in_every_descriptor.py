"""Writes times into every open descriptor and exits.

group: forge a reply
from: pygpubench fd_overwrite
ends: crashed
says: ended | not an answer | exit
holds: no time is read from this process, and a process that ends has no output.
"""

import os

for descriptor in range(256):
    try:
        os.write(descriptor, b"event-overhead\t0.001\n" + b"0\t0.42\n" * 100)
    except OSError:
        pass
os._exit(0)
