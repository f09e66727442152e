"""Waits for a lock that it already holds, while another thread waits for the same lock.

group: exhaust the host
target: tensor_memory
limits: wall_seconds=1
tests: storage_bytes_is_the_whole_storage
status: timeout
holds: the deadline ends the test.
"""

import threading

lock = threading.Lock()


def storage_bytes(x):
    lock.acquire()
    thread = threading.Thread(target=lock.acquire)
    thread.start()
    thread.join()
