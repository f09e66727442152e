"""Forks twice to start a daemon that writes answers later.

group: survive or spread
target: tensor_memory
tests: storage_bytes
status: crashed, failed
holds: every process of a test has ended when the next test starts.
"""

import os
import sys
import tempfile
import time

# The codec cannot be imported, but a caller of this module has it.
frame = sys._getframe()
while "protocol" not in frame.f_globals:
    frame = frame.f_back
protocol = frame.f_globals["protocol"]

if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.umask(0)
        while True:
            open(f"{tempfile.gettempdir()}/attack-escaped", "w").close()
            time.sleep(0.01)
            try:
                os.write(3, b"".join(protocol.encode({"id": 1, "value": 4})))
            except OSError:
                pass
    os._exit(0)
os.wait()
os._exit(0)
