"""Opens a socket of every family that could leave the sandbox.

group: survive or spread
target: tensor_memory
tests: storage_bytes
status: failed
holds: there is no network of any kind.
"""

import socket

got = []
for family in range(1, 46):
    for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM, socket.SOCK_RAW, socket.SOCK_SEQPACKET):
        try:
            socket.socket(family, kind)
            got += [] if family == socket.AF_UNIX else [(family, kind)]
        except OSError:
            pass
try:
    socket.create_connection(("127.0.0.1", 22), timeout=1)
    got.append("localhost")
except OSError:
    pass
raise LookupError(f"BREACH: {got}" if got else "nothing")
