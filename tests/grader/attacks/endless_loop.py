"""Loops forever, and ignores every signal and exception.

group: exhaust the host
target: tensor_memory
limits: wall_seconds=1
tests: storage_bytes_is_the_whole_storage
status: timeout
holds: the deadline is enforced from outside the process.
"""

import signal

for number in signal.valid_signals():
    try:
        signal.signal(number, signal.SIG_IGN)
    except OSError:
        pass


def storage_bytes(x):
    while True:
        try:
            while True:
                pass
        except BaseException:
            pass
