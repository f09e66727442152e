"""Creates a socket pair, which is allowed, and sends from one end to an outside address.

group: survive or spread
target: tensor_memory
tests: storage_bytes
status: failed
holds: one end of a pair reaches only the other end, or a network without any other host.
"""

import os
import socket

name = "\0attack-escaped"
got = []
for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM, socket.SOCK_SEQPACKET):
    try:
        one, other = socket.socketpair(socket.AF_UNIX, kind)
    except OSError:
        continue
    for address in (name, "/run/systemd/notify", "/dev/log", "/var/run/docker.sock"):
        for attempt in (
            lambda: one.connect(address),
            lambda: one.sendto(b"x", address),
            lambda: one.sendmsg([b"x"], (), 0, address),
        ):
            try:
                attempt()
                got += [] if other.recv(1, socket.MSG_DONTWAIT) else [(kind, address)]
            except BlockingIOError:
                got.append((kind, address))
            except OSError:
                pass
    try:
        other.bind(name)
        if os.getppid() != 1:
            got.append((kind, "a name"))
    except OSError:
        pass
    one.close()
    other.close()
raise LookupError(f"BREACH: {got}" if got else "nothing")
