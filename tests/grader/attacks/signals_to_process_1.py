"""Sends every signal to the process that started it, and to every other process.

group: survive or spread
target: tensor_memory
tests: storage_bytes
status: failed, crashed
holds: the sandbox still works afterwards.
"""

import os
import signal

for number in sorted(signal.valid_signals()):
    for send in (
        lambda: os.kill(1, number),
        lambda: os.kill(os.getppid(), number),
        lambda: signal.pidfd_send_signal(fd, number),
    ):
        try:
            fd = os.pidfd_open(os.getppid())
            send()
        except OSError:
            pass
