"""Requests memory that outlives a process or is in no resident set: memory files, queues, /dev/shm, shared pages without a file, pages in pipes, large buffers of sockets.

group: exhaust the host
target: tensor_memory
tests: storage_bytes
status: failed
holds: no such memory can be allocated.
"""

import ctypes
import mmap
import os
import platform
import socket
import tempfile

x86 = platform.machine() == "x86_64"
syscall = ctypes.CDLL(None).syscall
calls = {
    "memfd_create": (319 if x86 else 279, b"x", 0), "memfd_secret": (447, 0), "shmget": (29 if x86 else 194, 0, 4096, 0o1600),
    "msgget": (68 if x86 else 186, 0, 0o1600), "semget": (64 if x86 else 190, 0, 1, 0o1600),
    "io_setup": (206 if x86 else 0, 1, ctypes.byref(ctypes.c_long())),
    "mq_open": (240 if x86 else 180, b"attack-escaped", 0o102, 0o600, None),
}  # fmt: skip
got = [name for name, arguments in calls.items() if syscall(*arguments) >= 0]
for folder in ("/dev/shm", "/dev/mqueue", "/run", "/var/tmp", "/dev", "/"):
    try:
        open(f"{folder}/attack-escaped", "w").close()
        # /dev/shm may be the writable folder, whose files count and are removed.
        if folder != "/dev/shm" or "attack-escaped" not in os.listdir(tempfile.gettempdir()):
            got.append(folder)
    except OSError:
        pass


def shared_pages(flags, file=-1):
    libc = ctypes.CDLL(None)
    libc.mmap.restype = ctypes.c_void_p
    at = libc.mmap(None, ctypes.c_size_t(4096), mmap.PROT_READ | mmap.PROT_WRITE, flags, file, 0)
    return at not in (None, 2**64 - 1)


for flags in (mmap.MAP_SHARED, 0x3):  # the second is MAP_SHARED_VALIDATE
    if shared_pages(flags | mmap.MAP_ANONYMOUS):
        got.append(f"mmap {flags}")
    for device in ("zero", "full", "null"):
        try:
            if shared_pages(flags, os.open(f"/dev/{device}", os.O_RDWR)):
                got.append(device)
        except OSError:
            pass
if not shared_pages(mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS):
    got.append("not even private pages")


class Piece(ctypes.Structure):
    _fields_ = [("base", ctypes.c_char_p), ("length", ctypes.c_size_t)]


(r, w), (r2, w2) = os.pipe(), os.pipe()
piece = Piece(b"x" * 8, 8)
if ctypes.CDLL(None).vmsplice(w, ctypes.byref(piece), 1, 0) > 0:
    got.append("vmsplice")
with tempfile.TemporaryFile() as file:
    file.write(b"x" * 4096)
    for name, move in {
        "sendfile": lambda: os.sendfile(w, file.fileno(), 0, 8),
        "splice": lambda: os.splice(file.fileno(), w, 8, offset_src=0),
        "tee": lambda: syscall(276 if x86 else 77, r, w2, 8, 0) >= 0 or os.abort,
    }.items():
        os.write(w, b"x")
        try:
            if move() != os.abort:
                got.append(name)
        except OSError:
            pass
for option in (socket.SO_SNDBUF, socket.SO_RCVBUF):
    try:
        socket.socketpair()[0].setsockopt(socket.SOL_SOCKET, option, 2**30)
        got.append(f"a large buffer of a socket: {option}")
    except OSError:
        pass
with open("/dev/zero", "rb") as zeros:
    if zeros.read(3) != bytes(3):
        got.append("no zeros")
raise LookupError(f"BREACH: {got}" if got else "nothing")
