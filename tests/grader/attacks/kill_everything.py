"""Kills and stops every process that it can, its own last.

group: survive or spread
target: tensor_memory
tests: storage_bytes
status: crashed, failed
holds: it can end only itself.
"""

import os
import signal

for number in (signal.SIGSTOP, signal.SIGINT, signal.SIGKILL):
    for pid in (1, -1, os.getppid()):
        try:
            os.kill(pid, number)
        except OSError:
            pass
os.kill(0, signal.SIGKILL)
