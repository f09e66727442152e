"""Waits for a lock that it holds itself, with another thread that waits for it.

group: exhaust the host
target: tensor_memory
limits: wall_seconds=1
status: timeout
holds: the deadline ends it.
"""

import threading

lock = threading.Lock()


def storage_bytes(x):
    lock.acquire()
    thread = threading.Thread(target=lock.acquire)
    thread.start()
    thread.join()
