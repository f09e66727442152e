"""Follows links and paths up to the grader's own folders, and tries to read files there by name.

group: read the answers
target: tensor_memory
tests: storage_bytes_is_the_whole_storage
status: failed
holds: a known or correctly guessed path can be neither read nor listed.
"""

import os
import sys

names = [
    "tests/hidden/tensor_memory/test_hidden.py",
    "grader/solutions/reference/tensor_memory.py",
    "grader/sandbox/box.py",
    "grader/course_files/tests/hidden/tensor_memory/test_hidden.py",
    ".git/HEAD",
    "etc/shadow",
    "etc/hostname",
    "proc/version",
]
known = {sys.executable, sys.prefix, os.getcwd(), *sys.path, *os.environ.values()}
known |= {
    module.__file__ for module in list(sys.modules.values()) if getattr(module, "__file__", 0)
}
for path in list(known):
    try:
        known |= {os.path.realpath(os.path.join(path, name)) for name in os.listdir(path)}
    except OSError:
        pass
above = set()
for path in {*known, *map(os.path.realpath, known)}:
    while path not in ("", "/"):
        path = os.path.dirname(path)
        above.add(path)
got = []
for folder in above:
    for name in names:
        path = os.path.join(folder, name)
        try:
            with open(path, "rb") as f:
                got += [path] if f.read() else []
        except OSError:
            pass
got = [path for path in got if path != "/proc/version"]  # says nothing about this machine's users
raise LookupError(f"BREACH: {got}" if got else "nothing")
