"""How the zygote isolates the processes of a test: three kinds of isolation, called walls here.

The kind determines how the zygote finds the processes of a test, kills them and removes their
files:

    Namespace  a PID namespace in which the zygote is process 1, and all others belong to the test
    OwnUser    a user id that only the student's code has, plus Landlock and seccomp
    NoWall     no isolation; for debugging
"""

import ctypes
import errno
import json
import os
import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from typing import Any

from grader.worker import drop_rights, procfs, writable_folder

CLONE_NEWUSER = 0x10000000
# How often the zygote looks again for a file that a process seems to keep mapped only. It may have
# been opened or closed while the zygote looked.
MORE_LOOKS = 2
# The files of /proc that a process may read about itself. Its list of mounts is not among them,
# because that would show paths of the machine.
OF_ITSELF = {
    **dict.fromkeys(("status", "stat", "statm", "maps", "smaps"), drop_rights.READ_FILE),
    **dict.fromkeys(("task", "fd"), drop_rights.READ_DIR),
}
# CUDA names the threads that it starts by writing to files there, and fails with error 304 if it
# cannot.
NAMES_THREADS = drop_rights.READ_DIR | drop_rights.READ_FILE | drop_rights.WRITE_FILE
DEVICES = {
    **dict.fromkeys(("null", "full", "random", "urandom"), drop_rights.USE_DEVICE),
    # Shared pages of a writable /dev/zero would be memory that is in no resident set.
    "zero": drop_rights.READ_FILE,
}

# What to make, by what it is called in the answers of a worker.
SOCKETS = {
    "local streams": (socket.AF_UNIX, socket.SOCK_STREAM),
    "local datagrams": (socket.AF_UNIX, socket.SOCK_DGRAM),
    "the internet": (socket.AF_INET, socket.SOCK_STREAM),
}


def of_this_process(setup: dict[str, Any]) -> "NoWall":
    """The kind of isolation for this process, which is about to become the zygote; see boot.py."""
    if "own_user" in setup:
        return OwnUser(setup["own_user"], setup["filter"])
    return Namespace(setup["filter"]) if os.getpid() == 1 else NoWall()


class NoWall:
    """The student's processes are ordinary children of the zygote."""

    is_own_user = False  # else a limit of processes would count all that the user runs

    def start(self, user: int) -> None:
        """Switch this process to the zygote's user id; 0 keeps the current one."""
        if user:
            os.chmod(os.environ["TMPDIR"], 0o1777)  # the folder belongs to root
            _become(user)
        # bubblewrap had set this signal, but changing the user cleared it.
        drop_rights.prctl(drop_rights.PR_SET_PDEATHSIG, signal.SIGKILL)
        # No process of a test may read this one's memory.
        drop_rights.prctl(drop_rights.PR_SET_DUMPABLE, 0)

    def confine(self) -> None:
        """In a child, give up all rights that student code must not have."""
        # The zygote has to see how much memory the student's processes share, and which files
        # without a name they hold.
        drop_rights.prctl(drop_rights.PR_SET_DUMPABLE, 1)

    def as_student(self) -> AbstractContextManager[None]:
        """A context in which the zygote acts with the rights of the student's code."""
        return nullcontext()

    def looking_inside(self) -> AbstractContextManager[None]:
        """A context in which the kernel shows the zygote what a test's processes hold."""
        return self.as_student()

    def processes(self, child: int) -> list[str]:
        """The process ids of a test."""
        return [str(child)]

    def kill(self, child: int | None) -> None:
        """Kill all processes of a test, whatever they did to escape.

        Raises:
            ProcessLookupError: The test has no processes.
        """
        if child:
            os.killpg(child, signal.SIGKILL)

    def scratch_use(self, child: int, most_files: int, most_bytes: int) -> tuple[int, int]:
        """The number of files and the number of bytes in the writable folder.

        Counting may stop when either exceeds its limit.

        Raises:
            writable_folder.Uncountable: The test makes it impossible to count.
        """
        return 0, 0

    def disk_was_full(self, needed_bytes: int) -> bool:
        """Whether a test may have found less free space than this, because of others."""
        return writable_folder.free(os.environ["TMPDIR"])[1] < needed_bytes

    def wipe_scratch(self) -> None:
        """Empty the writable folder, and remove its traces of a test."""
        writable_folder.empty(os.environ["TMPDIR"])

    def facts(self) -> dict[str, Any]:
        """Facts about the isolation, which the grader checks before it trusts the sandbox."""
        return {"uid": os.getuid()}


class Namespace(NoWall):
    """The zygote is process 1 of a PID namespace; the writable folder is a file system.

    Args:
        filter_of_tests: The system calls that are denied to a test but not to the zygote, in
            hexadecimal; see `sandbox.seccomp.of_tests`.
    """

    is_own_user = True

    def __init__(self, filter_of_tests: str) -> None:
        self._filter = bytes.fromhex(filter_of_tests)

    def confine(self) -> None:
        """Deny this process the calls that are denied to a test."""
        super().confine()
        drop_rights.filter_calls(self._filter)

    def processes(self, child: int) -> list[str]:
        """Every process except the zygote."""
        return [name for name in os.listdir("/proc") if name.isdigit() and name != "1"]

    def kill(self, child: int | None) -> None:
        """Kill every process except the zygote."""
        os.kill(-1, signal.SIGKILL)

    def scratch_use(self, child: int, most_files: int, most_bytes: int) -> tuple[int, int]:
        """The use that the file system reports."""
        usage = os.statvfs(os.environ["TMPDIR"])
        return usage.f_files - usage.f_ffree, (usage.f_blocks - usage.f_bfree) * usage.f_frsize

    def disk_was_full(self, needed_bytes: int) -> bool:
        """No: nobody else writes to the file system of the writable folder."""
        return False

    def facts(self) -> dict[str, Any]:
        """Whether this process can create a user namespace, which must be impossible.

        If it can, it has just done so; the grader then ends the box.
        """
        return {"uid": os.getuid(), "nests": drop_rights.LIBC.unshare(CLONE_NEWUSER) == 0}


class OwnUser(NoWall):
    """Student code runs under a user id that nothing else on the machine has.

    The zygote runs under another user id, and keeps the two capabilities with which it can become
    the student's user. It kills with the student's own rights, so kill(-1) reaches all processes of
    the student's and no others. Those processes cannot send signals to the zygote.

    Args:
        setup: What `sandbox.levels.landlock` has prepared: `uid`, the student's user id;
            `readable`, the paths that student code may read; `private`, files that it must not be
            able to read;
            `filter`, the descriptor to read the seccomp filter from; `gpu`, None or the device
            files of a GPU: `nodes` may be opened, `closed` must not be, and `denied_requests`
            are the requests of ioctl that must be denied, by what they are.
        filter_of_tests: See `Namespace`.
    """

    is_own_user = True

    def __init__(self, setup: dict[str, Any], filter_of_tests: str) -> None:
        self._setup = setup
        self._filter = bytes.fromhex(filter_of_tests)
        self._uid: int = setup["uid"]
        self._foreign: set[str] = set()
        # The most files and bytes that were free since the last test, and the fewest bytes.
        self._most_free, self._least_free = (0, 0), 0

    def start(self, user: int) -> None:
        """Switch this process from root to the zygote's user id, and filter its system calls.

        The zygote does not die with the grader, because it must still kill the processes that the
        student's code started.
        """
        drop_rights.prctl(drop_rights.PR_SET_CHILD_SUBREAPER, 1)
        drop_rights.prctl(drop_rights.PR_SET_KEEPCAPS, 1)
        _become(user)
        drop_rights.keep_capabilities(drop_rights.CAP_SETUID, drop_rights.CAP_SETGID)
        drop_rights.no_new_privileges()
        with open(self._setup["filter"], "rb") as f:
            drop_rights.filter_calls(f.read())
        drop_rights.prctl(drop_rights.PR_SET_DUMPABLE, 0)
        from grader.worker import shared_memory  # which imports what other levels do not need

        shared_memory.install()

    def confine(self) -> None:
        """Become the student's user, without capabilities, with access to the listed paths only."""
        _become(self._uid)
        drop_rights.keep_capabilities()
        super().confine()  # after the change of the user, which takes it back
        drop_rights.prctl(drop_rights.PR_SET_CHILD_SUBREAPER, 1)  # for leftovers.py
        gpu = self._setup["gpu"]
        own = f"/proc/{os.getpid()}"
        # Where CUDA runs, shared memory without a file is allowed anyway.
        devices = {**DEVICES, "zero": drop_rights.USE_DEVICE} if gpu else DEVICES
        of_itself = {**OF_ITSELF, "task": NAMES_THREADS} if gpu else OF_ITSELF
        drop_rights.restrict(
            [
                *((path, drop_rights.READ) for path in self._setup["readable"]),
                *((f"/dev/{name}", rights) for name, rights in devices.items()),
                *((node, drop_rights.USE_DEVICE) for node in (gpu["nodes"] if gpu else [])),
                *((f"{own}/{name}", rights) for name, rights in of_itself.items()),
                (os.environ["TMPDIR"], -1),
            ]
        )
        drop_rights.filter_calls(self._filter)

    @contextmanager
    def as_student(self) -> Iterator[None]:
        """Act with the student's rights; student processes gain no rights over the zygote."""
        own = os.geteuid()
        os.seteuid(self._uid)
        try:
            yield
        finally:
            os.seteuid(own)

    @contextmanager
    def looking_inside(self) -> Iterator[None]:
        """Act with the student's group, too: the kernel shows them to no other."""
        own = os.getegid()
        with self.as_student():
            os.setegid(self._uid)
            try:
                yield
            finally:
                os.setegid(own)

    def processes(self, child: int) -> list[str]:
        """Every process of the student's user, and the child, which starts as the zygote's user.

        The owner of any other process is read only once, because such a process can never become
        the student's.
        """
        now = {name for name in os.listdir("/proc") if name.isdigit()}
        self._foreign &= now
        new = now - self._foreign
        found = [pid for pid in new if pid == str(child) or procfs.user_of(pid) == self._uid]
        self._foreign = now.difference(found)
        return found

    def kill(self, child: int | None) -> None:
        """Kill every process of the student's user, and the zygote's spare child."""
        with self.as_student():
            if os.geteuid() != self._uid or 0 in os.getresuid():
                raise PermissionError("kill(-1) would end processes that are not the student's")
            os.kill(-1, signal.SIGKILL)

    def scratch_use(self, child: int, most_files: int, most_bytes: int) -> tuple[int, int]:
        """Count the files in the folder and, if the disk has lost too many others, those as well.

        Files without a name are looked for only then, and what others have written is not charged.
        A file whose size nobody can find out is the test's fault only then, too.
        """
        top = os.environ["TMPDIR"]
        with self.as_student():
            files, size = writable_folder.use(top, most_files=most_files, most_bytes=most_bytes)
            now = writable_folder.free(top)
            self._least_free = min(self._least_free, now[1])
            # What would be free if there were no other files than the folder's.
            without = now[0] + files, now[1] + size
            most = max(self._most_free[0], without[0]), max(self._most_free[1], without[1])
            self._most_free = most
            if most[0] - without[0] <= most_files and most[1] - without[1] <= most_bytes:
                return files, size
            with self._stopped(child):  # files may have moved to where the count was not
                files, size = writable_folder.use(top, most_files=most_files, most_bytes=most_bytes)
                unnamed = self._unnamed_files(child)
        return files + len(unnamed), size + sum(unnamed)

    @contextmanager
    def _stopped(self, child: int) -> Iterator[None]:
        """Stop all processes of the student's, which none of them can undo; act as the student.

        Those that had stopped themselves are not woken.
        """
        stopped = set(filter(procfs.is_stopped, self.processes(child)))
        with suppress(ProcessLookupError):
            os.kill(-1, signal.SIGSTOP)
        try:
            yield
        finally:
            for pid in {*self.processes(child)} - stopped:
                with suppress(ProcessLookupError, PermissionError):  # ended, or not yet confined
                    os.kill(int(pid), signal.SIGCONT)

    def _unnamed_files(self, child: int) -> list[int]:
        """The sizes of the files without a name that the processes of a test hold."""
        # A child that is not yet confined runs no student code, and does not show itself.
        ours = procfs.filters_of("self")
        theirs = [pid for pid in self.processes(child) if procfs.filters_of(pid) > ours]
        try:
            with self.looking_inside():
                held = procfs.unnamed_files(theirs)
                unknown = {file for file, size in held.items() if size is None}
                for _ in range(MORE_LOOKS if unknown else 0):
                    held = procfs.unnamed_files(theirs)
                    unknown &= {file for file, size in held.items() if size is None}
        except OSError as e:
            raise writable_folder.Uncountable from e
        if unknown:
            raise writable_folder.Uncountable
        return [size for size in held.values() if size is not None]

    def disk_was_full(self, needed_bytes: int) -> bool:
        """Whether the disk, which is shared with others, had less free space than this."""
        return self._least_free < needed_bytes

    def wipe_scratch(self) -> None:
        """Replace the writable folder. Only the zygote's group may create files beside it."""
        with self.as_student():
            writable_folder.replace(os.environ["TMPDIR"])
        self._most_free = writable_folder.free(os.environ["TMPDIR"])
        self._least_free = self._most_free[1]

    def facts(self) -> dict[str, Any]:
        """In a child, try everything that the student's code must not be able to do."""
        self._foreign.clear()
        ours, theirs = socket.socketpair()
        pid = os.fork()
        if pid == 0:
            ours.close()
            self._answer_what_is_possible(theirs)
        theirs.close()
        tried = json.loads(ours.recv(65536))
        tried["seen"] = str(pid) in self.processes(pid)
        ours.close()
        os.waitpid(pid, 0)
        return {"uid": self._uid, "tried": tried}

    def _answer_what_is_possible(self, answer: socket.socket) -> None:
        try:
            self.confine()
            answer.send(json.dumps(self._tries()).encode())
            answer.recv(1)  # stay alive until `facts` has looked for this process
        except BaseException as e:
            answer.send(json.dumps({"failed": f"{type(e).__name__}: {e}"}).encode())
        finally:
            os._exit(0)

    def _tries(self) -> dict[str, Any]:
        """What a process of the student's can do; see `LandlockLevel.promises`."""
        with open(os.path.join(os.environ["TMPDIR"], "tries"), "w") as f:
            works = bool(f.write("it works"))
        return {
            "works": works,
            "is_student": os.getresuid() == (self._uid, self._uid, self._uid),
            "status": status_of_this_process(),
            "reads": _possible(lambda path: os.open(path, os.O_RDONLY), self._setup["private"]),
            "lists": _possible(os.listdir, ["/", "/proc", "/etc"]),
            "writes": _possible(_write_into, ["/", "/tmp", "/var/tmp", "/dev/shm"]),
            "signals": _possible(lambda pid: os.kill(pid, 0), [os.getppid(), 1]),
            "sockets": _possible(lambda kind: socket.socket(*SOCKETS[kind]), list(SOCKETS)),
            "rises": _possible(os.setuid, [0]),
            "nests": drop_rights.LIBC.unshare(CLONE_NEWUSER) == 0,
            "gpu": _tries_of_gpu(self._setup["gpu"]) if self._setup["gpu"] else None,
        }


def _tries_of_gpu(gpu: dict[str, Any]) -> dict[str, Any]:
    """What a process of the student's can do to the device files of GPUs."""
    openable = _possible(_open_device, gpu["nodes"] + gpu["closed"])
    null = os.open(os.devnull, os.O_RDONLY)
    denied = gpu["denied_requests"]
    return {
        "cannot_open": sorted({*gpu["nodes"]} - {*openable}),
        "opens": sorted({*gpu["closed"]} & {*openable}),
        "requests": [what for what, request in denied.items() if not _is_denied(null, request)],
        "connects": drop_rights.LIBC.connect(-1, None, 0) == 0 or ctypes.get_errno() != errno.EPERM,
    }


def _is_denied(descriptor: int, request: int) -> bool:
    """Whether the filter denies this request of ioctl, before any device is asked."""
    answer = drop_rights.LIBC.ioctl(descriptor, ctypes.c_ulong(request), None)
    return answer == -1 and ctypes.get_errno() == errno.EPERM


def _open_device(path: str) -> None:
    # The node of a capability is only held open.
    rights = os.O_RDONLY if "nvidia-caps" in path else os.O_RDWR
    os.close(os.open(path, rights | os.O_NONBLOCK))


def status_of_this_process() -> dict[str, int]:
    """This process's capabilities, whether it can gain more, and how its calls are filtered."""
    status = procfs.status_of(str(os.getpid()))
    return {
        "capabilities": int(status[b"CapEff"], 16) | int(status[b"CapPrm"], 16),
        "no_new_privileges": status[b"NoNewPrivs"] == b"1",
        "seccomp": int(status[b"Seccomp"]),
    }


def _become(uid: int) -> None:
    os.setgroups([])
    os.setresgid(uid, uid, uid)
    os.setresuid(uid, uid, uid)


def _possible(act: Callable[[Any], object], things: list[Any]) -> list[Any]:
    """The things for which `act` raises no OSError."""
    found = []
    for thing in things:
        with suppress(OSError):
            act(thing)
            found.append(thing)
    return found


def _write_into(folder: str) -> None:
    os.open(f"{folder}/grader-tries", os.O_CREAT | os.O_WRONLY, 0o600)
