"""Creates named objects that the kernel keeps without a file, and looks for those of an earlier submission.

group: read the answers
target: tensor_memory
tests: storage_bytes
status: failed
holds: System V and POSIX objects, keys and socket names are refused, or end with their process.
"""

import contextlib
import ctypes
import os
import socket

ADD_KEY, REQUEST_KEY = (217, 218) if os.uname().machine == "aarch64" else (248, 249)
KEY, CREATE, READ_AND_WRITE = 0x5EC2E7, 0o1000, 0o666
libc = ctypes.CDLL(None, use_errno=True)
name = b"/attack-escaped"


def found():
    """Names of the kernel objects that already exist."""
    if libc.shmget(KEY, 4096, READ_AND_WRITE) != -1:
        yield "shared memory of System V"
    if libc.semget(KEY, 1, READ_AND_WRITE) != -1:
        yield "a semaphore of System V"
    if libc.msgget(KEY, READ_AND_WRITE) != -1:
        yield "a message queue of System V"
    if libc.shm_open(name, os.O_RDWR, READ_AND_WRITE) != -1:
        yield "shared memory of POSIX"
    if libc.sem_open(name, 0):
        yield "a semaphore of POSIX"
    if libc.mq_open(name, os.O_RDWR) != -1:
        yield "a message queue of POSIX"
    if libc.syscall(REQUEST_KEY, b"user", b"attack-escaped", None, 0) > 0:
        yield "a key"
    for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM, socket.SOCK_SEQPACKET):
        with socket.socket(socket.AF_UNIX, kind) as door:
            if door.connect_ex("\0attack-escaped") == 0:
                yield "the name of a socket"


def leave():
    libc.shmget(KEY, 4096, CREATE | READ_AND_WRITE)
    libc.semget(KEY, 1, CREATE | READ_AND_WRITE)
    libc.msgget(KEY, CREATE | READ_AND_WRITE)
    libc.shm_open(name, os.O_RDWR | os.O_CREAT, READ_AND_WRITE)
    libc.sem_open(name, os.O_CREAT, READ_AND_WRITE, 1)
    libc.mq_open(name, os.O_RDWR | os.O_CREAT, READ_AND_WRITE, None)
    libc.syscall(ADD_KEY, b"user", b"attack-escaped", b"here", 4, -3)
    for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM, socket.SOCK_SEQPACKET):
        with contextlib.suppress(OSError):
            left = socket.socket(socket.AF_UNIX, kind)
            left.bind("\0attack-escaped")
            left.listen()
            left.detach()


libc.sem_open.restype = ctypes.c_void_p
if left := list(found()):
    raise RuntimeError(f"BREACH: {left}")
leave()
raise LookupError("nothing found")
