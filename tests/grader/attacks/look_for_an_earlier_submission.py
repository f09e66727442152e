"""Leaves traces wherever it can, and looks in the same places for traces of an earlier submission.

group: read the answers
target: tensor_memory
tests: storage_bytes
status: failed
holds: a test finds nothing that an earlier test left.
"""

import glob
import os
import socket
import sys
import tempfile

left = [
    p for p in glob.glob(f"{tempfile.gettempdir()}/**", recursive=True) if "attack-escaped" in p
]
try:
    socket.socket(socket.AF_UNIX).connect("\0attack-escaped")
    left.append("a listening socket")
except OSError:
    pass
if os.environ.get("ATTACK") or hasattr(sys, "attack"):
    left.append("a variable")
if left:
    raise RuntimeError(f"BREACH: {left}")

os.environ["ATTACK"] = sys.attack = "1"
open(f"{tempfile.gettempdir()}/attack-escaped", "w").close()
os.makedirs(f"{tempfile.gettempdir()}/.hidden/attack-escaped")
if os.fork() == 0:
    os.setsid()
    try:
        server = socket.socket(socket.AF_UNIX)
        server.bind("\0attack-escaped")
        server.listen()
        server.accept()
    finally:
        while True:
            pass
raise LookupError("nothing found")
