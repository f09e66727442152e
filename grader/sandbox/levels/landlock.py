"""The second level of isolation, for containers that forbid namespaces and mounts.

Theory of operation. Docker's default profile lets root change its user id, and lets every process
restrict itself. So the student's code runs under a user id that nothing else on the machine has.
Landlock, a security module of the kernel, denies this code all access to files except those that
this module lists. It may read the C library, the Python interpreter with its standard library, the
packages that a submission may import, the worker's code and the probes, and it may write to one
folder. A seccomp filter (seccomp.py) denies all sockets except socket pairs, so the code can reach
neither a network nor another process. The kernel lets a user signal only its own processes.

The zygote runs under a third user id. It keeps only the two capabilities with which it can become
the student's user: it kills processes and removes files with the student's own rights
(worker/isolation_walls.py).

This level is weaker than bubblewrap (docs/where_to_run.md compares them), and it needs root and
Linux 5.19.

With a GPU, the code may also open the device files of that GPU and read the driver's files, name
its threads, and bind sockets that nobody can connect to; docs/gpu.md says what is not promised
then. Of the driver's requests, only those that ioctls.py lists are allowed.
"""

import ctypes
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from grader.base.errors import SandboxUnavailable
from grader.sandbox import ioctls, seccomp, visible_files
from grader.sandbox.gpus import Gpu
from grader.sandbox.levels.level import Isolation, Level, Order, holding

# To make folders for other users, to end their processes, and to become them; see capabilities(7).
NEEDED_CAPABILITIES = {"CHOWN": 0, "KILL": 5, "SETGID": 6, "SETUID": 7}
CREATE_RULESET, GIVE_VERSION = 444, 1  # the same numbers on every architecture
NEEDED_VERSION = 2  # the first that can allow moving files between folders
# Parts of the standard library that are large and that no submission needs. The last one is for
# programs that contain Python.
SELDOM_USED = ("test", "idlelib", "ensurepip", "turtledemo", "lib2to3", "config-*")
OPTIMIZED = "*.opt-[12].pyc"  # the bytecode of Python with the option -O
MOST_COPIED_BYTES = 2**28
# The C library reads the first of these; torch's library for CPU detection reads the others.
OF_THE_MACHINE = ("/etc/ld.so.cache", "/proc/cpuinfo", "/proc/meminfo", "/sys/devices/system/cpu")
# CUDA's driver reads these, besides those of `Gpu.files`. (snapd's interface cuda-support lists
# them.)
READ_BY_CUDA = (
    "/proc/devices",
    "/proc/modules",
    "/proc/driver/nvidia/params",
    "/proc/sys/vm/mmap_min_addr",
)
# It reads and writes the memory of other processes, and CUDA only checks that it exists.
OF_DEBUGGERS = "nvidia-uvm-tools"
# The free space that a box needs on its disk, which it shares with others: for copies of packages,
# and for what a test writes beyond its limit before the zygote looks again.
LEAST_FREE = 2**28
# Folders that normally every user may pass through.
PLACES = ("/tmp", "/var/tmp", "/dev/shm")
DRIVER = "driver"
KILL_ALL = (
    "import os, sys; own, user = map(int, sys.argv[1:]);"
    "os.setgroups([]); os.setresgid(own, own, own); os.setresuid(own, user, own);"
    "assert os.geteuid() == user > 0; os.kill(-1, 9)"
)


def _capabilities() -> int:
    """This process's capabilities, one bit each."""
    with open("/proc/self/status") as f:
        return next(int(line.split()[1], 16) for line in f if line.startswith("CapEff"))


def _has_users() -> bool:
    """Whether the user ids for submissions exist here; a nested container may have too few."""
    with open("/proc/self/uid_map") as f:
        ranges = [list(map(int, line.split())) for line in f]
    last = visible_files.FIRST_USER + visible_files.USERS - 1
    return any(
        first <= visible_files.FIRST_USER and last < first + count for first, _, count in ranges
    )


class LandlockLevel(Level):
    """The level "landlock", the second."""

    name: Isolation = "landlock"

    def why_not(self) -> str | None:
        """Why this level cannot be used on this machine; None if no obstacle is known.

        Starting the level runs further checks (`promises`).
        """
        if os.geteuid() != 0:
            return "only root can run submissions under a user id of their own"
        held = _capabilities()
        if missing := [name for name, bit in NEEDED_CAPABILITIES.items() if not held >> bit & 1]:
            names = " and ".join(missing)
            added = " ".join(f"--cap-add {name}" for name in missing)
            return f"root lacks the capability {names} here: start the container with {added}"
        if not _has_users():
            return f"this container has no user ids from {visible_files.FIRST_USER:,} upwards"
        found: int = ctypes.CDLL(None).syscall(CREATE_RULESET, None, 0, GIVE_VERSION)
        if found < NEEDED_VERSION:
            has = f"version {found} of Landlock" if found > 0 else "no Landlock"
            return f"the kernel has {has}, and version {NEEDED_VERSION} is needed (Linux 5.19)"
        return None

    def new_folder(self) -> tempfile.TemporaryDirectory[str]:
        """Create a folder that any user may pass through and run programs from, but not list.

        Raises:
            SandboxUnavailable: There is no suitable location for it.
        """
        places = dict.fromkeys([tempfile.gettempdir(), *PLACES])
        usable = [place for place in places if Path(place).is_dir() and _is_usable(Path(place))]
        if not usable:
            raise SandboxUnavailable(
                f"no place for the sandbox: {' or '.join(places)} has less than "
                f"{LEAST_FREE // 2**20} MiB of free space, or other users may not pass through it "
                "or may not run programs from it; name another folder in TMPDIR"
            )
        made = tempfile.TemporaryDirectory(prefix="grader-", dir=usable[0])
        os.chmod(made.name, 0o711)
        return made

    def start(self, order: Order) -> "subprocess.Popen[bytes]":
        """Start the worker under its own user id, restricted by Landlock."""
        rules = seccomp.program(cuda=order.gpu is not None, namespaces=False)
        with holding(rules) as held:
            if reason := self.why_not():
                raise SandboxUnavailable(f"the isolation level landlock cannot be used: {reason}")
            line = command(order, filter_fd=held.fileno())
            values = environment(order.folder, order.gpu)
            for tool in order.tools:
                values |= tool.environment
            return order.run(line, values, held.fileno())

    def promises(self, facts: Mapping[str, Any]) -> dict[str, bool]:
        """The properties that this level must have, and whether the worker's tests confirm them."""
        tried = facts["tried"]
        if "failed" in tried:
            raise SandboxUnavailable(
                f"the isolation level landlock does not start: {tried['failed']}"
            )
        status, gpu = tried["status"], tried["gpu"]
        network = {"it has no network, and no sockets except socket pairs": not tried["sockets"]}
        return {
            "the student's code runs under a user id of its own": tried["is_student"],
            "it has no capabilities": status["capabilities"] == 0,
            "it cannot gain privileges": status["no_new_privileges"] and not tried["rises"],
            "its system calls are filtered": status["seccomp"] == 2,
            "it cannot read files of the grader or the system": not tried["reads"],
            "it cannot list other folders than its own": not tried["lists"],
            "it can write to its own folder only": tried["works"] and not tried["writes"],
            "it can signal its own processes only": not tried["signals"],
            **(network if gpu is None else _promises_with_a_gpu(tried["sockets"], gpu)),
            "it cannot create user namespaces": not tried["nests"],
            "the zygote can see the processes that it starts": tried["seen"],
        }

    def kill_all(self, user: int) -> None:
        """Kill every process of this user, even if the zygote is gone."""
        if not user:
            return
        command = [sys.executable, "-I", "-S", "-c", KILL_ALL, str(visible_files.unused_user())]
        command.append(str(user))
        with suppress(OSError):
            subprocess.run(command, env={}, capture_output=True, check=False)

    def empty(self, folder: Path) -> None:
        """Remove the folder of a box, whose folders may be nested too deep for shutil.rmtree."""
        remove = shutil.which("rm", path=os.defpath) or "rm"
        with suppress(OSError):  # then the caller's own clean-up must suffice
            subprocess.run([remove, "-rf", "--one-file-system", str(folder)], capture_output=True)


def command(order: Order, *, filter_fd: int) -> list[str]:
    """Prepare a folder for the worker, and return the command line that starts the worker.

    The worker checks that the student's code cannot read a file of the grader's and a hidden test.

    Args:
        order: The worker. Its folder was made by `new_folder` and is empty.
        filter_fd: The descriptor that the filter is read from.

    Raises:
        SandboxUnavailable: This level cannot be used on this machine; the message says why.
    """
    folder, user, tests = order.folder, order.user, order.tests
    private = [Path(__file__), *sorted((tests / "hidden").rglob("*.py"))[:1]]
    shows = _ShownFolder(folder)
    visible_files.copy(visible_files.WORKER, folder / "runtime" / "grader")
    visible_files.copy_code_of_tests(tests, folder / "course")
    shows.packages(order.packages)
    interpreter = shows.python()
    shows.in_place(p for f in visible_files.library_folders() for p in _without_packages(f))
    shows.in_place(map(Path, (*OF_THE_MACHINE, *visible_files.HUGE_PAGES)))
    if order.gpu:
        order.gpu.require_open_nodes(to_others=True)
        shows.driver(order.gpu.libraries)
        shows.in_place(map(Path, (*order.gpu.files, *READ_BY_CUDA)))
    for tool in order.tools:
        shows.in_place(file for file, _ in tool.files)
        if tool.headers:
            shows.headers(tool.headers)
    zygote = visible_files.unused_user()
    _make_scratch(folder, user, zygote)
    return order.boot(
        str(interpreter),
        f"{folder}/runtime",
        [f"{folder}/site", f"{folder}/course"],
        zygote,
        filter=seccomp.of_tests(cuda=order.gpu is not None).hex(),
        own_user={
            "uid": user,
            "filter": filter_fd,
            "readable": list(map(str, shows.readable)),
            "private": [*map(str, private), "/etc/passwd", "/proc/1/status", "/proc/self/environ"],
            "gpu": _devices(order.gpu) if order.gpu else None,
        },
    )


def _devices(gpu: Gpu) -> dict[str, Any]:
    """The device files that student code may open, and what it must not be able to do."""
    folder = gpu.nodes[0].parent
    usable = [node for node in gpu.nodes if node.name != OF_DEBUGGERS]
    others = {*folder.glob("nvidia*"), *folder.glob("nvidia-caps/*"), *folder.glob("dri/*")}
    return {
        "nodes": list(map(str, usable)),
        "closed": sorted(str(node) for node in others - {*usable} if not node.is_dir()),
        "denied_requests": ioctls.TRIED,
    }


def _make_scratch(folder: Path, user: int, zygote: int) -> None:
    """Create the writable folder, in a folder where only the zygote's group may replace it."""
    scratch = Path(scratch_in(folder))
    scratch.parent.mkdir()
    os.chown(scratch.parent, 0, zygote)
    scratch.parent.chmod(0o731)
    scratch.mkdir(mode=0o700)
    os.chown(scratch, user, user)


def scratch_in(folder: Path) -> str:
    """The path of the writable folder."""
    return f"{folder}/work/scratch"


class _ShownFolder:
    """Fills a folder with what the worker may see, and records which paths must be readable.

    A file that other users can reach is linked; any other file gets a second name here, or is
    copied to another disk.

    Args:
        folder: The folder.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._copied_bytes = 0
        # The paths that the worker's processes may read.
        self.readable = [folder / name for name in ("runtime", "course", "site", "python")]

    def driver(self, libraries: Iterable[tuple[str, Path]]) -> None:
        """Show the libraries of a GPU's driver, under the names by which CUDA loads them."""
        visible_files.make_folder(self._folder / DRIVER)
        self.readable.append(self._folder / DRIVER)
        for name, file in libraries:
            self._show(file, DRIVER, name)

    def packages(self, packages: tuple[str, ...]) -> None:
        """Show each file or folder of an allowed package."""
        site = self._folder / "site"
        visible_files.make_folder(site)  # which Landlock needs even if it stays empty
        for path in visible_files.package_paths(packages):
            self._show(path, "site")

    def python(self) -> Path:
        """Show the interpreter and its standard library only; return the interpreter's path."""
        standard = visible_files.standard_library()
        hidden = visible_files.installed_inside(standard)
        for path in standard.iterdir():
            if path not in hidden and not any(map(path.match, SELDOM_USED)):
                self._show(path, f"python/{sys.platlibdir}/{standard.name}")
        for shared in visible_files.loaded("libpython"):
            self._show(shared, "python/lib")
        # The interpreter searches for its library next to itself, so it must not be a link.
        binary = self._folder / "python" / "bin" / visible_files.interpreter().name
        visible_files.make_folder(binary.parent)
        shutil.copy(visible_files.interpreter(), binary)
        return binary

    def headers(self, folder: Path) -> None:
        """Show headers where a compiler finds them beside Python."""
        self._show(folder, "python/include")

    def in_place(self, paths: Iterable[Path]) -> None:
        """Make files and folders of the system readable at their original paths."""
        self.readable += [path for path in paths if path.exists()]

    def _show(self, path: Path, place: str, name: str = "") -> None:
        target = self._folder / place / (name or path.name)
        visible_files.make_folder(target.parent)
        if not (closed := _closed_above(path)):
            target.symlink_to(path.resolve())  # other users may not reach links on the way to it
            self.readable.append(path.resolve())
            return
        files = (f for f in [path, *path.rglob("*")] if not f.match(OPTIMIZED))
        self._copied_bytes += sum(f.stat().st_size for f in files)
        if self._copied_bytes > MOST_COPIED_BYTES:
            raise SandboxUnavailable(
                f"the user that submissions run as may not pass through {closed}, "
                f"where {path.name} is: chmod o+x {closed}, or install it elsewhere"
            )
        if path.is_dir():
            left_out = shutil.ignore_patterns(OPTIMIZED)
            shutil.copytree(path, target, ignore=left_out, copy_function=_named_again)
        else:
            _named_again(path, target)


def _named_again(file: str | Path, target: str | Path) -> None:
    """Give a file a second name, which takes a tenth of the time of a copy, or copy it."""
    try:
        os.link(os.path.realpath(file), target)
    except OSError:  # it is on another disk, or its disk has no links
        shutil.copy2(file, target)  # keeps the mtime that cached bytecode refers to


def environment(folder: Path, gpu: Gpu | None) -> dict[str, str]:
    """The environment of the worker."""
    scratch, python = scratch_in(folder), f"{folder}/python/lib"
    if gpu is None:
        return visible_files.environment(scratch, python)
    return {
        **visible_files.environment(scratch, f"{python}:{folder}/{DRIVER}"),
        # The device files of other GPUs exist, although they cannot be opened.
        **gpu.environment(alone=False),
        # A server of the machine that shares its GPU: CUDA looks for it, and must find none.
        "CUDA_MPS_PIPE_DIRECTORY": f"{scratch}/no-mps",
    }


def _promises_with_a_gpu(sockets: list[str], gpu: Mapping[str, Any]) -> dict[str, bool]:
    return {
        "it has no network, and its sockets can be connected to nothing": (
            not {*sockets} - {"local streams"} and not gpu["connects"]
        ),
        "it can open the device files of the chosen GPU": not gpu["cannot_open"],
        "it can open no other device file of the driver": not gpu["opens"],
        "it can make only the requests to the driver that are listed": not gpu["requests"],
    }


def _is_usable(place: Path) -> bool:
    disk = os.statvfs(place)
    has_space = disk.f_bavail * disk.f_frsize >= LEAST_FREE
    return has_space and not _closed_above(place / "x") and not disk.f_flag & os.ST_NOEXEC


def _without_packages(folder: Path) -> list[Path]:
    """The folder itself or, if it contains installed packages, everything in it except those."""
    hidden = visible_files.installed_inside(folder)

    def rest(of: Path) -> list[Path]:
        if of in hidden:
            return []
        if not any(h.is_relative_to(of) for h in hidden):
            return [of]
        return [path for inner in sorted(of.iterdir()) for path in rest(inner)]

    return rest(folder)


def _closed_above(path: Path) -> Path | None:
    """The first parent folder of a path that other users may not pass through, or None.

    Links in the path are resolved.
    """
    above = reversed(path.resolve().parents)
    return next((p for p in above if not p.stat().st_mode & 0o001), None)
