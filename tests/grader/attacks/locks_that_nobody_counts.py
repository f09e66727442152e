"""Locks parts of a file; each lock holds memory of the kernel, and processes elsewhere see it.

group: exhaust the host
target: tensor_memory
tests: storage_bytes
status: failed
holds: no lock is held, and sqlite3 works anyway.
"""

import fcntl
import os
import sqlite3
import struct
import tempfile

RECORD = "hhqqi4x"
OF_THE_OPEN_FILE = 37  # F_OFD_SETLK


def locked(file):
    """Whether another process finds the first byte locked."""
    if (pid := os.fork()) == 0:
        asked = struct.pack(RECORD, fcntl.F_WRLCK, os.SEEK_SET, 0, 1, 0)
        found = struct.unpack(RECORD, fcntl.fcntl(file, fcntl.F_GETLK, asked))
        os._exit(found[0] != fcntl.F_UNLCK)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


got = []
with tempfile.NamedTemporaryFile() as file:
    fcntl.lockf(file, fcntl.LOCK_EX, 1)
    got += ["process"] * locked(file.fileno())
with tempfile.NamedTemporaryFile() as file:
    lock = struct.pack(RECORD, fcntl.F_WRLCK, os.SEEK_SET, 0, 1, 0)
    fcntl.fcntl(file, OF_THE_OPEN_FILE, lock)
    with open(file.name, "r+b") as other:
        got += ["open file"] * locked(other.fileno())
with sqlite3.connect(f"{tempfile.gettempdir()}/made") as made:
    made.execute("create table t (x)")
    made.execute("insert into t values (7)")
if made.execute("select x from t").fetchall() != [(7,)]:
    got.append("not even a database")
raise LookupError(f"BREACH: {got}" if got else "nothing")
