"""The zygote: a process without student code, after all slow imports, which forks children.

A child serves one test, or several in a row.

No process that a test starts can kill or stop the zygote. Orphaned processes become the zygote's
children, and `kill(-1)` ends every process of the test, whatever that process did to escape
(isolation_walls.py). The zygote talks to the grader over one SEQPACKET socket:

    spawn {compiler, limits}
                    + two file descriptors: the child's channel, and a pipe for tracebacks
    look            → how much CPU time the child and its processes have used,
                      whether all their threads sleep, and whether the disk was full
    trace             have the child print a traceback of all its threads
    end             → how the child ended;
                      everything it left behind is removed before the answer is sent

An answer has the number of its request, so that nobody takes it for that to a later one. A child
never has that socket. While a child runs, the zygote enforces what per-process limits do
not cover: the memory and the files of all the test's processes together.

The zygote never runs a tensor operation: if a process has used several threads, its forked children
hang when they use threads. It does not start CUDA either, because children of a process that has
started CUDA cannot use it.
"""

import gc
import importlib
import json
import os
import pkgutil
import resource
import select
import signal
import socket
import sys
import time
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from typing import Any

from grader.wire import protocol, torch_compiler
from grader.wire.zygote_messages import MAX_FILES, Activity, Breach, Ending, SpawnLimits
from grader.worker import procfs, test_process, writable_folder
from grader.worker.isolation_walls import NoWall, status_of_this_process

LOOK_EVERY_SECONDS = 0.05
END_SECONDS = 5.0
LOOKS_AT_MEMORY = 3
# States of a thread that does not run unless something wakes it: asleep, stopped, ended. "D" is not
# among them, because such a thread waits for a disk.
ASLEEP = "STtZX"


class NotPreloaded(Exception):
    """A module of the course cannot be imported; the message says which and why."""


def import_slow_packages(preload: list[str]) -> None:
    """Import the modules that the course preloads, and its probes.

    Raises:
        NotPreloaded: One of them cannot be imported.
    """
    gc.disable()  # importing creates many objects and hardly any garbage
    for name in preload:
        try:
            importlib.import_module(name)
        except ImportError as e:
            raise NotPreloaded(f"problems.toml: preload: {name} cannot be imported: {e}") from e
    import kit

    try:
        import tests.probes
    except ModuleNotFoundError as e:
        raise NotPreloaded(f"the course's probes cannot be imported: {e}") from e
    for package in (kit, tests.probes):
        for module in pkgutil.iter_modules(package.__path__, f"{package.__name__}."):
            if "torch" in sys.modules or module.name not in kit.NEED_TORCH:
                importlib.import_module(module.name)
    protocol.learn()
    if "torch" in sys.modules:
        from grader.worker import forbidden_backward

        forbidden_backward.teach()
        torch_compiler.postpone_import()
        sys.modules["torch"].set_num_threads(1)
    test_process.warm_up()
    gc.enable()


def serve(control_fd: int, wall: NoWall) -> None:
    """Answer the grader until it closes the zygote's socket, `control_fd`."""
    # Process 1 receives only signals for which it has a handler, and Python has one for SIGINT.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    control = socket.socket(fileno=control_fd)
    gc.collect()
    gc.freeze()  # children share these pages until they are written to
    about_itself = facts(wall)
    zygote = Zygote(control, wall)
    zygote.wipe_scratch()  # the imports leave folders there
    zygote.fork_early()
    control.send(json.dumps(about_itself).encode())
    while zygote.turn():
        pass
    zygote.end_everything()


def refuse(control_fd: int, reason: NotPreloaded) -> None:
    """Tell the grader, in place of the facts, that the course preloads what cannot be imported."""
    socket.socket(fileno=control_fd).send(json.dumps({"not_preloaded": str(reason)}).encode())


def facts(wall: NoWall) -> dict[str, Any]:
    """Facts about this process, which the grader checks before it trusts the sandbox."""
    return {
        "pid": os.getpid(),
        **status_of_this_process(),
        **wall.facts(),
        "python": sys.version.split()[0],
        **_facts_of_torch(),
    }


def _facts_of_torch() -> dict[str, str | None]:
    """The versions of torch and CUDA, if the course uses torch."""
    torch = sys.modules.get("torch")
    return {"torch": torch.__version__, "cuda": torch.version.cuda} if torch else {}


@dataclass
class RunningChild:
    """The child of the test that is running."""

    pid: int
    pidfd: int
    limits: SpawnLimits
    ending: Ending = field(default_factory=Ending)
    status: int | None = None
    looking_seconds: float = 0.0  # CPU time that it takes to find out what the processes share
    seen: dict[tuple[str, bytes], float] = field(default_factory=dict)  # CPU time, by process

    def used(self, processes: list[str], *, without_child: bool = False) -> float:
        """The CPU time of all processes of the test; these are left.

        That of a process that has ended is counted in the process that waited for it. If that one
        ignores the end of its children, nobody waits, so nothing that was once seen is forgotten.
        """
        times = procfs.seconds_of(processes)
        self.seen |= {process: own for process, (own, _) in times.items()}
        counted = self.ending.cpu_seconds_of_all + sum(map(sum, times.values()))
        childs = [own for (pid, _), own in self.seen.items() if pid == str(self.pid)]
        left_out = sum(childs) if without_child else 0.0
        return max(counted, sum(self.seen.values())) - left_out + self.looking_seconds

    def count(self, pid: int, status: int, usage: resource.struct_rusage, idle_bytes: int) -> None:
        """Add the usage of one of the test's processes that has exited."""
        seconds = usage.ru_utime + usage.ru_stime
        self.ending.cpu_seconds_of_all += seconds
        self.ending.memory_bytes += max(0, usage.ru_maxrss * 1024 - idle_bytes)
        if pid == self.pid:
            self.status, self.ending.cpu_seconds = status, seconds


class Zygote:
    """Runs one child at a time, and removes everything that it may have left behind."""

    def __init__(self, control: socket.socket, wall: NoWall) -> None:
        self._control = control
        self._wall = wall
        self._running: RunningChild | None = None
        self._spare: tuple[int, socket.socket] | None = None
        self._measure_itself()

    def turn(self) -> bool:
        """Wait for a request, for the child's exit, or until it is time to check the child.

        Return False when the grader has closed the socket.
        """
        running = self._running_now
        sockets = [self._control.fileno()] + ([running.pidfd] if running else [])
        ready, _, _ = select.select(sockets, [], [], LOOK_EVERY_SECONDS if running else None)
        if running and running.pidfd in ready:
            self.end_everything()
        elif running:
            self._look_at(running)
        if self._control.fileno() not in ready:
            return True
        message, descriptors, _, _ = socket.recv_fds(self._control, 65536, 3)
        if message:
            self._obey(json.loads(message), descriptors)
        return bool(message)

    def _obey(self, request: dict[str, Any], descriptors: list[int]) -> None:
        """Do what the grader asks."""
        if request["op"] == "spawn":
            if request["compiler"]:
                self._import_compiler()
            self._spawn(request["limits"], descriptors)
        elif request["op"] == "look":
            if running := self._running_now:
                self._look_at(running)
            self._answer(request, self._activity())
        elif request["op"] == "trace":
            if running := self._running_now:
                with self._wall.as_student():
                    signal.pidfd_send_signal(running.pidfd, signal.SIGUSR1)
        else:
            ending = self._ended()
            self.fork_early()
            self._answer(request, ending)

    def _answer(self, request: dict[str, Any], told: Activity | Ending) -> None:
        answer = {"number": request["number"], "told": asdict(told)}
        self._control.send(json.dumps(answer).encode())

    @property
    def _running_now(self) -> RunningChild | None:
        """The child, if it has not ended; what was true before a look need not be after it."""
        return self._running if self._running and self._running.status is None else None

    def _import_compiler(self) -> None:
        """Import torch's compiler, once, for this child and all later ones."""
        if not torch_compiler.is_postponed():
            return
        # The spare child has no compiler. And while it lives, every page that the import writes to
        # would be copied.
        self.end_everything()
        with self._wall.as_student():
            torch_compiler.import_now(has_cxx="CXX" in os.environ)
        self.wipe_scratch()
        gc.freeze()
        self._measure_itself()

    def _measure_itself(self) -> None:
        """Measure the memory that every child shares with this process."""
        self._idle_bytes = procfs.own_bytes("self")
        self._idle_resident_bytes = procfs.resident_bytes()

    def _spawn(self, limits: dict[str, Any], descriptors: list[int]) -> None:
        """Give a test to a waiting child: send it the limits, the channel and the pipe."""
        pid, handover = self._spare or self._fork()
        self._spare = None
        socket.send_fds(handover, [json.dumps(limits).encode()], descriptors)
        handover.close()
        for descriptor in descriptors:
            os.close(descriptor)
        self._running = RunningChild(pid, os.pidfd_open(pid), SpawnLimits(**limits))

    def fork_early(self) -> None:
        """Fork the next child while the grader is still judging the answers of the last one."""
        with suppress(OSError):  # `_spawn` then tries again
            self._spare = self._fork()

    def _fork(self) -> tuple[int, socket.socket]:
        """Fork a child that waits for its test."""
        handover, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        pid = os.fork()
        if pid == 0:
            self._control.close()
            handover.close()
            test_process.main(theirs, self._wall.confine, self._wall.is_own_user)
        theirs.close()
        return pid, handover

    def _look_at(self, running: RunningChild) -> None:
        """End a test whose processes together exceed a limit.

        The kernel itself limits the CPU time of the child.
        """
        processes = self._wall.processes(running.pid)
        ending = running.ending
        if self._hold_more(running, processes):
            ending.breach = "memory"
        elif running.used(processes, without_child=True) > running.limits.cpu_seconds:
            ending.breach = "processor"
        else:
            ending.breach = self._breach_of_files(running)
        if ending.breach:
            self.end_everything()

    def _hold_more(self, running: RunningChild, processes: list[str]) -> bool:
        """Whether a test holds more memory than it may, besides what this process holds anyway.

        A process need not share anything with this one, for example after an exec. Finding out how
        much it shares takes long, so that is done only if it matters, and in the test's CPU time.
        What a process shares counts twice if it ends after its turn, so one look is no proof.
        """
        most_bytes = running.limits.memory_bytes + self._idle_bytes
        if sum(map(procfs.own_bytes, processes)) <= most_bytes:
            return False
        before = time.thread_time()
        with self._wall.looking_inside():
            holds_more = all(
                sum(map(procfs.share_bytes, [*processes, "self"])) > most_bytes
                for _ in range(LOOKS_AT_MEMORY)
            )
        running.looking_seconds += time.thread_time() - before
        return holds_more

    def _breach_of_files(self, running: RunningChild) -> Breach | None:
        """The limit that the files of the running test exceed."""
        most_bytes = running.limits.scratch_bytes
        try:
            files, size = self._wall.scratch_use(running.pid, MAX_FILES, most_bytes)
        except writable_folder.Uncountable:
            return "uncountable"
        if files > MAX_FILES:
            return "files"
        return "scratch" if size > most_bytes else None

    def _activity(self) -> Activity:
        """What the processes of the running test have done so far."""
        running = self._running
        processes = self._wall.processes(running.pid) if running else []
        tasks = [task for pid in processes for task in procfs.tasks(pid)]
        return Activity(
            nanoseconds=sum(nanoseconds for nanoseconds, _ in tasks),
            sleeps=all(state in ASLEEP for _, state in tasks),
            cpu_seconds_of_all=running.used(processes) if running else 0.0,
            disk_was_full=running is not None
            and self._wall.disk_was_full(running.limits.scratch_bytes),
        )

    def end_everything(self) -> None:
        """Kill the child and all its descendants, and wait until the last one is gone."""
        if self._spare:
            self._spare[1].close()  # the spare child then exits
            self._spare = None
        deadline = time.monotonic() + END_SECONDS
        if running := self._running_now:
            running.ending.was_alive = not _ends_by_itself(running)
        while self._any_left() and time.monotonic() < deadline:
            with suppress(ProcessLookupError):
                self._wall.kill(self._running.pid if self._running else None)
            time.sleep(0.0005)

    def _any_left(self) -> bool:
        """Reap ended processes; return whether any process is left."""
        while True:
            try:
                pid, status, usage = os.wait4(-1, os.WNOHANG)
            except ChildProcessError:
                return False
            if pid == 0:
                return True
            if self._running:
                self._running.count(pid, status, usage, self._idle_resident_bytes)

    def _ended(self) -> Ending:
        """Remove everything that the test left behind, and return how its child ended."""
        started = time.monotonic()
        self.end_everything()
        running, self._running = self._running, None
        if running is None:
            return Ending()
        os.close(running.pidfd)
        ending = running.ending
        ending.clean = running.status is not None and self.wipe_scratch()
        if running.status is not None:
            code = os.waitstatus_to_exitcode(running.status)
            ending.signal, ending.exit = (-code, None) if code < 0 else (None, code)
        ending.cpu_seconds_of_all = running.used([])
        ending.cleaning_seconds = time.monotonic() - started
        return ending

    def wipe_scratch(self) -> bool:
        """Empty the one writable folder; return False if something cannot be removed."""
        try:
            self._wall.wipe_scratch()
        except OSError:
            return False
        return True


def _ends_by_itself(running: RunningChild) -> bool:
    """Whether a child is ending or has ended, before its zygote kills it; wait for its end.

    A process closes its channel a little before its end. If its zygote killed it in between, nobody
    could tell how it ended.
    """
    if not procfs.is_exiting(str(running.pid)):
        return False
    select.select([running.pidfd], [], [], END_SECONDS)
    return True
