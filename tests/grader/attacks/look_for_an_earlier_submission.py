"""Leaves its answer wherever something can be left, and looks there for that of the submission before it.

group: read the answers
target: tensor_memory
status: failed
holds: a test finds nothing of an earlier one.
"""

import glob
import os
import socket
import sys

left = [p for p in glob.glob("/tmp/**", recursive=True) if "attack-escaped" in p]
door = socket.socket(socket.AF_UNIX)
if door.connect_ex("\0attack-escaped") == 0:
    left.append("a listening socket")
if os.environ.get("ATTACK") or hasattr(sys, "attack"):
    left.append("a variable")
if left:
    raise RuntimeError(f"BREACH: {left}")

os.environ["ATTACK"] = sys.attack = "1"
open("/tmp/attack-escaped", "w").close()
os.makedirs("/tmp/.hidden/attack-escaped")
if os.fork() == 0:
    os.setsid()
    server = socket.socket(socket.AF_UNIX)
    server.bind("\0attack-escaped")
    server.listen()
    while True:
        server.accept()
raise LookupError("nothing found")
