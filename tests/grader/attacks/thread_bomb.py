"""Starts threads until no more can start.

group: exhaust the host
target: tensor_memory
tests: storage_bytes
status: crashed
holds: threads count as processes, and the message names the limit.
"""

import threading
import time


def storage_bytes(x):
    while True:
        threading.Thread(target=time.sleep, args=(10**6,), daemon=True).start()
