"""Look for the answers, for secrets, and for what an earlier submission left.

group: read the answers
target: tensor_memory
tests: storage_bytes
status: failed
"""

import contextlib
import ctypes
import gc
import importlib
import os
import platform
import re
import socket
import sys
import tempfile

TMP = tempfile.gettempdir()


def report(got):
    """End the test, whatever was found."""
    raise LookupError(f"BREACH: {got}" if got else "nothing")

def content(path, size=-1):
    """What is in a file; nothing if it cannot be read."""
    with contextlib.suppress(OSError), open(path, "rb") as f:
        return f.read(size)
    return b""


# %% environment_of_every_process
"""Reads the environment and the command line of every process that it can see, including its own.

holds: the grader's environment is not visible anywhere in the sandbox.
"""
found = [str(dict(os.environ))]
try:
    everybody = os.listdir("/proc")
except OSError:
    everybody = map(str, range(os.getpid() + 100))
for pid in filter(str.isdigit, everybody):
    for file in ("environ", "cmdline", "stack", "auxv"):
        found.append(repr(content(f"/proc/{pid}/{file}")))
report([text for text in found if "SECRET" + "-" in text])


# %% host_paths_in_mountinfo
"""Takes host paths from its list of mounts, and opens those paths and their neighbours.

holds: host paths do not exist in the sandbox, even if the student knows them.
"""
with open("/proc/self/mountinfo") as f:
    roots = {line.split()[3] for line in f}
beside = {os.path.dirname(os.path.dirname(root)) for root in roots if root.count("/") > 2}
for top in sorted(beside - {"/", "/usr", "/usr/lib"}):
    for name in ("", "reference/", "grader/solutions/reference/", "tests/hidden/tensor_memory/"):
        for file in ("", "tensor_memory.py", "test_hidden.py"):
            if os.path.exists(os.path.join(top, name + file)):
                raise RuntimeError(f"BREACH: {top} {name}{file}")
raise LookupError(re.sub(r"\s+", " ", f"{len(beside)} folders, none of them here"))


# %% import_the_answers
"""Imports the hidden tests, the reference, the grader and pytest by every name that they could have.

holds: none of them can be imported.
"""
names = (
    "tests.hidden.tensor_memory.test_hidden tests.hidden kit.expect kit.fixtures grader "
    "grader.grading.grade grader.solutions.reference.tensor_memory grader.wire.protocol "
    "grader.worker.test_process pytest _pytest msgspec pluggy rich typer hypothesis pip"
)
for name in names.split():
    with contextlib.suppress(ImportError):
        raise RuntimeError(f"BREACH: {importlib.import_module(name)}")
report([])


# %% memory_of_process_1
"""Tries every way to read the memory and the descriptors of the process that started it.

holds: another process's memory cannot be read, written, traced or even listed.
"""
libc = ctypes.CDLL(None, use_errno=True)
x86 = platform.machine() == "x86_64"
buffer = ctypes.create_string_buffer(64)
vector = (ctypes.c_size_t * 2)(ctypes.addressof(buffer), 64)
zygote = os.getppid()
got = []
for file in ("mem", "maps", "smaps", "environ", "syscall", "stack", "auxv"):
    got += [file] if content(f"/proc/{zygote}/{file}", 1) else []
for folder in ("fd", "map_files", "root/", "cwd/", "task"):
    if folder != "task" or zygote > 1:
        with contextlib.suppress(OSError):
            got.append(os.listdir(f"/proc/{zygote}/{folder}"))
got += ["ptrace"] * (libc.ptrace(16, zygote, 0, 0) == 0)
read = 310 if x86 else 270
got += ["process_vm_readv"] * (libc.syscall(read, zygote, vector, 1, vector, 1, 0) >= 0)
got += ["pidfd_getfd"] * (libc.syscall(438, os.pidfd_open(zygote), 3, 0) >= 0)
report(got)


# %% names_outside
"""Checks whether files of the host exist and how large they are; earns its points only if it learns something.

reference: before
stronger: Landlock denies reading a file, but not looking up its name, size or owner.
holds: files outside the sandbox have no name in it.
"""
learned = []
for path in ("/etc/shadow", "/root", "/var/log", "/home", "/bin/sh", "/usr/share"):
    with contextlib.suppress(OSError):
        learned.append((path, os.stat(path).st_size))
if not learned:
    raise LookupError("nothing is there")


# %% read_every_file
"""Reads every text file that it can reach, searching for tests, solutions and secrets.

holds: of the grader, only the worker and the probes are in the sandbox.
"""
WANTED = [b"def test" + b"_", b"BEGIN " + b"SOLUTION", b"SECRET" + b"-"]
SKIPPED = ("/proc", "/sys", "/site", "/python", "/tmp/submission")

for folder, folders, files in os.walk("/"):
    folders[:] = [f for f in folders if os.path.join(folder, f) not in SKIPPED]
    for path in (os.path.join(folder, name) for name in files):
        if path.endswith((".py", ".toml", ".csv", ".txt", ".md", ".sqlite", ".json")):
            with open(path, "rb") as f:
                text = f.read()
            if any(word in text for word in WANTED):
                raise RuntimeError(f"BREACH: {path}: {text}")
report([])


# %% read_known_paths
"""Follows links and paths up to the grader's own folders, and tries to read files there by name.

holds: a known or correctly guessed path can be neither read nor listed.
"""
names = [
    "tests/hidden/tensor_memory/test_hidden.py", "grader/solutions/reference/tensor_memory.py",
    "grader/course_files/tests/hidden/tensor_memory/test_hidden.py", "grader/sandbox/sandbox.py",
    ".git/HEAD", "etc/shadow", "etc/hostname",
]
known = {sys.executable, sys.prefix, os.getcwd(), *sys.path, *os.environ.values()}
known |= {getattr(module, "__file__", None) or "/" for module in list(sys.modules.values())}
for path in list(known):
    with contextlib.suppress(OSError):
        known |= {os.path.realpath(os.path.join(path, name)) for name in os.listdir(path)}
above = set()
for path in {*known, *map(os.path.realpath, known)}:
    while path not in ("", "/"):
        path = os.path.dirname(path)
        above.add(path)
paths = (os.path.join(folder, name) for folder in above for name in names)
report([path for path in paths if content(path)])


# %% search_the_heap
"""Searches every object, frame and module of its process for expected values, and its descriptors for a way to the grader.

holds: the process holds only the inputs of one test, one socket, and pipes for output and tracebacks.
"""
theirs = ("pytest", "_pytest", "grader", "msgspec")
got = [m for m in sys.modules if m.split(".")[0] in theirs or m.startswith("tests.hidden")]
numbers = map(int, os.listdir("/proc/self/fd"))
descriptors = [fd for fd in numbers if fd > 4 and os.path.exists(f"/proc/self/fd/{fd}")]
sockets = [o for o in gc.get_objects() if type(o) is socket.socket]
got += descriptors + [o for o in sockets if o.fileno() in descriptors]
frame = sys._getframe()
while frame:
    got += [name for name in frame.f_locals if "expected" in name or "hidden" in name]
    frame = frame.f_back
report(got)
