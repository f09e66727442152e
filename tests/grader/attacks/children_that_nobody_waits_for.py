"""Has the kernel forget its children, whose processor time is then in no count of ended processes.

group: exhaust the host
target: tensor_memory
limits: cpu_seconds=2
tests: storage_bytes_is_the_whole_storage
status: timeout
holds: the processor time of every process that a test starts is counted.
"""

import ctypes
import os
import signal
import struct
import time

_NO_WAIT = 0x00000002  # SA_NOCLDWAIT


def storage_bytes(x):
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    flags = struct.pack("P128xi4xP", 0, _NO_WAIT, 0)  # the same, by the C library
    ctypes.CDLL(None).sigaction(signal.SIGCHLD, ctypes.create_string_buffer(flags), None)
    for _ in range(25):
        r, w = os.pipe()
        if os.fork() == 0:
            stop = time.process_time() + 0.3
            while time.process_time() < stop:
                pass
            os._exit(0)
        os.close(w)
        os.read(r, 1)
        os.close(r)
    return 0
