"""Opens pipes and sockets until there are none left, and fills them, in every process that it can start.

group: exhaust the host
target: tensor_memory
limits: wall_seconds=1
status: crashed, timeout, failed, memory
holds: descriptors have a limit, and all are closed with the test.
"""

import os
import socket


def storage_bytes(x):
    for _ in range(4):
        os.fork()
    kept = []
    while True:
        kept.append(socket.socketpair())
        kept[-1][0].setblocking(False)
        kept[-1][0].send(bytes(100_000))
