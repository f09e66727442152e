"""Opens pipes and sockets until none are left and fills them, in as many processes as it can start.

group: exhaust the host
target: tensor_memory
limits: wall_seconds=1
tests: storage_bytes
status: crashed, timeout, failed, memory
holds: the number of descriptors is limited, and all of them are closed when the test ends.
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
