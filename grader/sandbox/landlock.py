"""The second level of isolation, for containers that forbid namespaces and mounts.

Theory of operation. Docker's default profile lets root change its user, and lets anybody restrict
itself. So the student's code runs as a user id that nothing else on the machine has. Landlock, a
part of the kernel, takes every access to files from it, except to what this module lists: the C
library, the Python interpreter with its standard library, the packages that a submission may
import, the worker's code and the probes, all without the right to write, and one writable folder.
A seccomp filter (seccomp.py) takes the rest: it allows no socket but pairs, so there is neither a
network nor another process to talk to. The kernel lets a user signal only its own processes.

The zygote is a third user. It keeps two capabilities, which let it become the student's user and no
more than that: it ends and wipes with the student's own rights (worker/walls.py).

What bubblewrap gives and this level does not: other files cannot be read, but their names, sizes
and owners can be asked for where the folders above them allow it; the size of the writable folder
is watched, not limited, and a file that is deleted while it is open is not counted; the machine's
processor and memory are shared with everything in the container. It needs root and Linux 5.19, and
has no GPU.
"""

import ctypes
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from grader.errors import SandboxUnavailable
from grader.sandbox import shown

CREATE_RULESET, GIVE_VERSION = 444, 1  # on every machine
NEEDED_VERSION = 2  # from here on, files may be renamed from one folder to another
# Parts of the standard library that are large and that no submission needs.
SELDOM_USED = {"test", "idlelib", "ensurepip", "turtledemo", "lib2to3"}
MOST_COPIED_BYTES = 2**28
# The C library reads the first; torch's library for finding out about the processor, the others.
OF_THE_MACHINE = (
    "/etc/ld.so.cache",
    "/proc/cpuinfo",
    "/proc/meminfo",
    "/sys/devices/system/cpu",
)
# Folders that every user may pass through, unless somebody has closed them.
PLACES = ("/tmp", "/var/tmp", "/dev/shm")
KILL_ALL = (
    "import os, sys; own, user = map(int, sys.argv[1:]);"
    "os.setgroups([]); os.setresgid(own, own, own); os.setresuid(own, user, own);"
    "assert os.geteuid() == user > 0; os.kill(-1, 9)"
)


def why_not() -> str | None:
    """Why this level cannot be used here; None if it can, as far as is known before the start."""
    if os.geteuid() != 0:
        return "only root can give submissions a user of their own"
    if not _has_users():
        return f"this container has no user ids from {shown.FIRST_USER:,} on"
    found: int = ctypes.CDLL(None).syscall(CREATE_RULESET, None, 0, GIVE_VERSION)
    if found < NEEDED_VERSION:
        has = f"version {found} of Landlock" if found > 0 else "no Landlock"
        return f"the kernel has {has}, and version {NEEDED_VERSION} is needed (Linux 5.19)"
    return None


def _has_users() -> bool:
    """Whether the user ids that submissions get exist here; a nested container may have few."""
    with open("/proc/self/uid_map") as f:
        ranges = [list(map(int, line.split())) for line in f]
    last = shown.FIRST_USER + shown.USERS - 1
    return any(first <= shown.FIRST_USER and last < first + count for first, _, count in ranges)


def command(
    folder: Path,
    *,
    control_fd: int,
    filter_fd: int,
    user: int,
    tests: Path,
    preload: Sequence[str],
    private: Iterable[Path],
) -> list[str]:
    """Prepare a folder for the worker, and return the command line that starts the worker.

    Args:
        folder: An empty folder, made by `new_folder`.
        control_fd: The worker's end of its socket.
        filter_fd: The descriptor that the filter is read from.
        user: The user id for the student's code.
        tests: The course's tests folder; only its probes are shown.
        preload: The modules that the worker imports before the first test.
        private: Files that the student's code must not be able to read; the worker tries.

    Raises:
        SandboxUnavailable: This level cannot be used here; the text says why.
    """
    if reason := why_not():
        raise SandboxUnavailable(f"the isolation level landlock cannot be used: {reason}")
    shows = _Shows(folder)
    shows.copies(shown.WORKER, "runtime/grader")
    shows.copies(shown.probes(tests), "course/tests/probes")
    shows.packages()
    interpreter = shows.python()
    shows.in_place(p for f in shown.library_folders() for p in _without_packages(f))
    shows.in_place(map(Path, (*OF_THE_MACHINE, *shown.HUGE_PAGES)))
    scratch = folder / "scratch"
    scratch.mkdir(mode=0o700)
    os.chown(scratch, user, user)
    setup = {
        "control": control_fd,
        "user": shown.unused_user(),
        "runtime": f"{folder}/runtime",
        "paths": [f"{folder}/site", f"{folder}/course"],
        "preload": preload,
        "own_user": {
            "uid": user,
            "filter": filter_fd,
            "readable": list(map(str, shows.readable)),
            "private": [*map(str, private), "/etc/passwd", "/proc/1/status", "/proc/self/environ"],
        },
    }
    boot = f"{folder}/runtime/grader/worker/boot.py"
    return [str(interpreter), "-s", "-S", "-P", boot, json.dumps(setup)]


class _Shows:
    """Fills a folder with what the worker may see, and notes which paths have to be readable.

    A file is linked where other users can reach it, and copied where they cannot.

    Args:
        folder: The folder.

    Attributes:
        readable: The paths that the worker's processes may read.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._copied_bytes = 0
        self.readable = [folder / name for name in ("runtime", "course", "site", "python")]

    def copies(self, paths: Iterable[Path], place: str) -> None:
        """Copy sources, so that it does not matter who may read the originals."""
        target = self._folder / place
        target.mkdir(parents=True)
        for path in paths:
            if path.is_dir():
                self.copies(path.glob("*.py"), f"{place}/{path.name}")
            else:
                shutil.copyfile(path, target / path.name)

    def packages(self) -> None:
        """Each file or folder of an allowed package."""
        for path in shown.package_paths():
            self._show(path, "site")

    def python(self) -> Path:
        """The interpreter and its standard library, without other packages; return the former."""
        standard = shown.standard_library()
        hidden = shown.installed_inside(standard)
        for path in standard.iterdir():
            if path not in hidden and path.name not in SELDOM_USED:
                self._show(path, f"python/{sys.platlibdir}/{standard.name}")
        for shared in shown.loaded("libpython"):
            self._show(shared, "python/lib")
        # It looks for its library from where it lies itself, and so must not be a link.
        binary = self._folder / "python" / "bin" / shown.interpreter().name
        binary.parent.mkdir()
        shutil.copy(shown.interpreter(), binary)
        return binary

    def in_place(self, paths: Iterable[Path]) -> None:
        """Files and folders of the system, under their own names."""
        self.readable += [path for path in paths if path.exists()]

    def _show(self, path: Path, place: str) -> None:
        target = self._folder / place / path.name
        target.parent.mkdir(parents=True, exist_ok=True)
        if not (closed := _closed_above(path)):
            target.symlink_to(path)
            self.readable.append(path)
            return
        self._copied_bytes += sum(f.stat().st_size for f in [path, *path.rglob("*")])
        if self._copied_bytes > MOST_COPIED_BYTES:
            raise SandboxUnavailable(
                f"the user that submissions run as may not pass through {closed}, "
                f"where {path.name} is: chmod o+x {closed}, or install it elsewhere"
            )
        if path.is_dir():
            shutil.copytree(path, target)
        else:
            shutil.copy2(path, target)  # with its time, by which bytecode is found


def environment(folder: Path) -> dict[str, str]:
    """The environment of the worker."""
    return shown.environment(f"{folder}/scratch", f"{folder}/python/lib")


def promises(facts: dict[str, Any]) -> dict[str, bool]:
    """What must hold, and whether the worker's own tries show that it does."""
    tried = facts["tried"]
    if "failed" in tried:
        raise SandboxUnavailable(f"the isolation level landlock does not start: {tried['failed']}")
    status = tried["status"]
    return {
        "the student's code runs as a user of its own": tried["is_student"],
        "it has no capabilities": status["capabilities"] == 0,
        "it cannot gain privileges": status["no_new_privileges"] and not tried["rises"],
        "its system calls are filtered": status["seccomp"] == 2,
        "it reads no file of the grader's and of the system's": not tried["reads"],
        "it lists no folder outside of its own": not tried["lists"],
        "it writes to its own folder only": tried["works"] and not tried["writes"],
        "it signals no process but its own": not tried["signals"],
        "it has no network and no sockets but pairs": not tried["sockets"],
        "it cannot create user namespaces": not tried["nests"],
        "the processes that it starts can be watched": tried["seen"],
    }


def new_folder() -> "tempfile.TemporaryDirectory[str]":
    """A new folder that any user may pass through but not list, and run programs from.

    Raises:
        SandboxUnavailable: There is no place for one.
    """
    places = dict.fromkeys([tempfile.gettempdir(), *PLACES])
    usable = [place for place in places if Path(place).is_dir() and _is_usable(Path(place))]
    if not usable:
        raise SandboxUnavailable(
            f"other users may not pass through, or not run programs from, {' or '.join(places)}"
        )
    made = tempfile.TemporaryDirectory(prefix="grader-", dir=usable[0])
    os.chmod(made.name, 0o711)
    return made


def _is_usable(place: Path) -> bool:
    return not _closed_above(place / "x") and not os.statvfs(place).f_flag & os.ST_NOEXEC


def empty(folder: Path) -> None:
    """Remove a folder of `new_folder`, once nothing of the student's runs any more.

    What a student's code leaves may be nested too deep for Python's own function.
    """
    remove = shutil.which("rm", path=os.defpath) or "rm"
    with suppress(OSError):  # then Python's own function has to do
        subprocess.run([remove, "-rf", "--one-file-system", str(folder)], capture_output=True)


def kill_all(user: int) -> None:
    """Kill every process of this user, even if the zygote is gone."""
    command = [sys.executable, "-I", "-S", "-c", KILL_ALL, str(shown.unused_user()), str(user)]
    with suppress(OSError):
        subprocess.run(command, env={}, capture_output=True, check=False)


def _without_packages(folder: Path) -> list[Path]:
    """The folder, or as much of what is in it as leaves out the packages installed there."""
    hidden = shown.installed_inside(folder)

    def rest(of: Path) -> list[Path]:
        if of in hidden:
            return []
        if not any(h.is_relative_to(of) for h in hidden):
            return [of]
        return [path for inner in sorted(of.iterdir()) for path in rest(inner)]

    return rest(folder)


def _closed_above(path: Path) -> Path | None:
    """A folder above a path, links resolved, that other users may not pass through."""
    above = reversed(path.resolve().parents)
    return next((p for p in above if not p.stat().st_mode & 0o001), None)
