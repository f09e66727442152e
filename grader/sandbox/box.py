"""Run one zygote in its box: start it, have it fork children, restart it if cleaning up fails.

A sandbox knows nothing about submissions. Each child gets its own sources, so one warm sandbox can
serve many submissions. This module imports neither torch nor pytest, so that the zygote's slow
imports run in parallel with the grader's own.
"""

import json
import os
import selectors
import signal
import socket
import subprocess
import tempfile
import threading
import weakref
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from types import TracebackType
from typing import IO, Any

from grader.base import interrupts
from grader.base.errors import GraderFault, SandboxUnavailable
from grader.course.courses import Course, Limits
from grader.sandbox import inherited, shown
from grader.sandbox.cores import SharedCore
from grader.sandbox.gpus import Gpu
from grader.sandbox.levels import LEVELS, Isolation, Level
from grader.sandbox.levels.level import Order, nothing
from grader.sandbox.usage import Usage
from grader.shared.messages import Activity, Ending, SpawnLimits
from kit.text import printable

START_SECONDS = 120.0
END_SECONDS = 15.0
GIVE_BACK_SECONDS = 5.0


class Sandbox:
    """One zygote, which starts in the background.

    The constructor returns at once, and the zygote is ready a few seconds later. Meanwhile, the
    caller can do its own slow imports.

    Args:
        tests: The course's tests folder; the worker sees only its probes.
        isolation: The level of isolation; `levels.strongest` chooses one.
        scratch_bytes: How much a test may write to /tmp, all files together.
        preload: The modules that the zygote imports before the first test, besides torch.
        gpu: The GPU that tests may use; the caller must have locked it.

    Attributes:
        core: The core that the thread shares with the test's processes.
        usage: Measures the GPU memory that the running test uses; None without a GPU.
        promises: The security properties that were verified when the box started. Empty before
            that, and without isolation.

    Raises:
        SandboxUnavailable: The limits that this process inherited are too low, or bubblewrap is
            missing or too old.
    """

    _control: socket.socket
    _process: "subprocess.Popen[bytes]"
    _end_processes: "weakref.finalize[..., Sandbox]"
    _pidfd: int | None
    _host_pid: int
    core: SharedCore
    _tell: Callable[[Ending], None] | None

    def __init__(
        self,
        tests: Path,
        *,
        isolation: Isolation,
        scratch_bytes: int,
        preload: Sequence[str] = (),
        gpu: Gpu | None = None,
    ) -> None:
        self._tests = tests
        self.isolation, self._level = isolation, LEVELS[isolation]
        self._scratch_bytes = scratch_bytes
        self._preload = list(preload)
        self.gpu = gpu
        self.usage = Usage(gpu) if gpu else None
        self._is_closed = False
        # Held while the box ends or is replaced. A signal may close it in another thread.
        self._changing = threading.Lock()
        inherited.raise_limits(scratch_bytes)
        self._start()

    @classmethod
    def of(cls, course: Course, *, isolation: Isolation, gpu: Gpu | None = None) -> "Sandbox":
        """Create a sandbox for a course's submissions."""
        return cls(
            course.tests,
            isolation=isolation,
            scratch_bytes=course.limits.file_bytes,
            preload=course.preload,
            gpu=gpu,
        )

    def __enter__(self) -> "Sandbox":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Stop the zygote and all other processes in its box; it is not restarted any more.

        Another thread may still be using the sandbox.
        """
        self._is_closed = True
        with self._changing:
            self._end_box()

    def _end_box(self) -> bool:
        """Stop all processes in the box; return False if that took too long."""
        self.core.leave()
        if self._process.returncode is None:
            _hang_up(self._control)
            if not _ends(self._process):
                self._kill()
        self._end_processes()
        ended = True
        if self._pidfd is not None:
            ended = _readable(self._pidfd, END_SECONDS)  # waits until all its memory is freed
            os.close(self._pidfd)
            self._pidfd = None
        self._forget_files()
        return ended

    def spawn(self, limits: Limits, descriptors: list[int], *, with_compiler: bool = False) -> None:
        """Ask the zygote to fork a child, and pass these file descriptors to the child.

        With `with_compiler`, torch's compiler is imported before the fork.

        Raises:
            GraderFault: The zygote has exited, and has been restarted.
        """
        self.wait_until_ready()
        if self.usage:
            self.usage.start()
        else:
            self.core.take(self._host_pid)
        request = {
            "op": "spawn",
            "compiler": with_compiler,
            "limits": asdict(
                SpawnLimits(
                    memory_bytes=limits.memory_bytes,
                    cpu_seconds=limits.cpu_seconds,
                    processes=limits.processes,
                    file_bytes=limits.file_bytes,
                    scratch_bytes=self._scratch_bytes,
                    device_memory_bytes=limits.device_memory_bytes if self.gpu else None,
                )
            ),
        }
        try:
            socket.send_fds(self._control, [json.dumps(request).encode()], descriptors)
        except OSError as e:
            self._restart()
            raise GraderFault(f"the sandbox exited between two tests: {e}") from None

    def end(self) -> Ending:
        """Have the zygote kill its child and remove everything that the child left behind.

        If the clean-up may be incomplete, restart the zygote.

        Raises:
            GraderFault: The zygote did not answer, or the GPU did not release the child's memory.
                In both cases, the zygote has been restarted.
        """
        self.end_soon()
        ending = self._ending()
        self._free_the_gpu()
        return ending

    def activity(self) -> Activity:
        """What the processes of the running test have done so far.

        Raises:
            GraderFault: The zygote did not answer, and has been restarted.
        """
        # If the zygote has exited, reading its answer reports that.
        with suppress(OSError):
            self._control.settimeout(END_SECONDS)
            self._control.send(b'{"op": "look"}')
        return Activity(**self._answer())

    def print_traceback(self) -> None:
        """Have the child print a traceback of all its threads, if it still can."""
        # If the zygote has exited, reading its next answer reports that.
        with suppress(OSError):
            self._control.send(b'{"op": "trace"}')

    def end_soon(self, tell: Callable[[Ending], None] | None = None) -> None:
        """Do the same as `end`, but without waiting; for a test that has all its answers.

        The wait is postponed until the next test.

        Args:
            tell: Called with the test's `Ending` before the next test begins.
        """
        self.core.leave()
        if not self._facts:
            return  # the test ended with an earlier box
        self._unanswered = True
        self._tell = tell
        # If the zygote has exited, reading its answer reports that.
        with suppress(OSError):
            self._control.settimeout(END_SECONDS)
            self._control.send(b'{"op": "end"}')

    def _ending(self) -> Ending:
        self._unanswered = False
        tell, self._tell = self._tell, None
        ending = Ending(**self._answer())
        if tell:
            tell(ending)
        if not ending.clean:
            self._restart()
        return ending

    def _answer(self) -> dict[str, Any]:
        """Return the zygote's answer to the last request.

        Raises:
            GraderFault: The zygote did not answer, and has been restarted.
        """
        try:
            answer = self._control.recv(65536)
            if not answer:
                raise OSError("it closed its socket")
        except OSError as e:
            self._restart()
            raise GraderFault(f"the sandbox stopped answering: {e}") from None
        told: dict[str, Any] = json.loads(answer)
        return told

    def _free_the_gpu(self) -> None:
        """Wait until the GPU has released the memory of a child that exited.

        If that takes too long, restart the box.

        Raises:
            GraderFault: The memory is still in use after the restart.
        """
        if self.usage is None or self.usage.given_back(GIVE_BACK_SECONDS):
            return
        self._restart()
        if not self.usage.given_back(GIVE_BACK_SECONDS):
            held = self.usage.taken_bytes() // 2**20
            raise GraderFault(f"the GPU still holds {held} MiB after the test's process has ended")

    @property
    def facts(self) -> dict[str, Any]:
        """What the zygote reports about itself: pid, uid, versions.

        Its entry `environment` describes the GPU, if there is one.
        """
        self.wait_until_ready()
        of_gpu = (
            {"gpu": self.gpu.name, "driver": self.gpu.driver, "cuda": str(self._facts["cuda"])}
            if self.gpu
            else {}
        )
        return {**self._facts, "environment": of_gpu}

    @property
    def host_pid(self) -> int:
        """The zygote's process id outside the box."""
        self.wait_until_ready()
        return self._host_pid

    def renew(self) -> None:
        """Replace the box by one in which nothing shows what earlier tests did.

        Raises:
            GraderFault: See `wait_until_ready` and `_restart`.
        """
        self.wait_until_ready()  # the last test is charged now
        self._restart()

    def _restart(self) -> None:
        """Stop this box and start another one.

        Raises:
            GraderFault: A killed process of the old box hangs in the GPU's driver, where no signal
                can end it; or another thread has closed the sandbox.
        """
        self.core.leave()  # this thread may have taken it after the other one closed the sandbox
        with self._changing:
            if self._is_closed:
                raise GraderFault("the sandbox has been closed")
            self._kill()
            ended = self._end_box()
            self._start()
        if self.gpu and not ended:
            raise GraderFault(
                f"a killed process still hangs in the driver of the GPU ({self.gpu.name}): "
                "the GPU may have to be reset"
            )

    def _kill(self) -> None:
        """Kill the box.

        Killing bubblewrap alone is not enough once the zygote runs as another user.
        """
        if self._pidfd is not None:
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._pidfd, signal.SIGKILL)
        self._process.kill()

    def _start(self) -> None:
        self._folder = self._level.new_folder()
        user = shown.unused_user()
        self._errors: IO[bytes] = tempfile.TemporaryFile()
        self._info = nothing()
        self._facts: dict[str, Any] = {}
        self.promises: list[str] = []
        self._unanswered = False
        self._tell = None
        self._host_pid = 0
        self.core = SharedCore()
        self._pidfd = None
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            # An interrupt inside Popen would leave a running process without a handle to it.
            with interrupts.held():
                order = Order(
                    folder=Path(self._folder.name),
                    control_fd=theirs.fileno(),
                    user=user,
                    tests=self._tests,
                    scratch_bytes=self._scratch_bytes,
                    preload=self._preload,
                    gpu=self.gpu,
                    output=self._errors,
                )
                started = self._level.start(order)
                self._process, self._info = started.process, started.info
                # Also stops the processes if an interrupt comes before the caller has this object.
                self._end_processes = weakref.finalize(
                    self, _end_processes, self._control, self._process, self._level, user
                )
        except BaseException:
            self._control.close()
            self._forget_files()
            raise
        finally:
            theirs.close()

    def _forget_files(self) -> None:
        self._info.close()
        self._errors.close()
        self._level.empty(Path(self._folder.name))
        self._folder.cleanup()

    def wait_until_ready(self) -> None:
        """Wait until the zygote has imported everything.

        Then check that its box isolates as strictly as requested.

        Raises:
            SandboxUnavailable: The box cannot be started on this machine, or does not isolate
                strictly enough; the message says why.
            GraderFault: The start takes too long, or the GPU did not release the memory of the
                previous test.
        """
        if self._unanswered:
            # The previous test has its answers; a dead zygote has been restarted.
            with suppress(GraderFault):
                self._ending()
            self._free_the_gpu()
        if self._facts:
            return
        self._control.settimeout(START_SECONDS)
        try:
            hello = self._control.recv(65536)
        except TimeoutError:
            raise GraderFault(f"the sandbox was not ready after {START_SECONDS:.0f} s") from None
        if not hello:
            self._process.wait(END_SECONDS)
            self._errors.seek(0)
            said = printable(
                self._errors.read().decode(errors="replace").strip() or "nothing", 2000
            )
            said = "\n".join(filter(None, [said, self._level.advice(said)]))
            raise SandboxUnavailable(f"the sandbox cannot be started: {said}")
        facts = json.loads(hello)
        self._check(self._level.promises(facts))
        self._host_pid = self._level.host_pid(facts, self._info)
        if self._level.is_isolated:
            # If memory runs out, the kernel then kills the box first.
            with suppress(OSError):
                Path(f"/proc/{self._host_pid}/oom_score_adj").write_text("900")
        self._pidfd = os.pidfd_open(self._host_pid)
        self._facts = facts

    def _check(self, promises: dict[str, bool]) -> None:
        """Refuse a box that isolates less strictly than requested."""
        if broken := [what for what, holds in promises.items() if not holds]:
            raise SandboxUnavailable(
                f"the sandbox started, but is not secure. This is not true: {'; '.join(broken)}"
            )
        self.promises = list(promises)


def _end_processes(
    control: socket.socket, process: "subprocess.Popen[bytes]", level: Level, user: int
) -> None:
    """Stop the zygote, wait until bubblewrap has exited, then kill bubblewrap's process group.

    The group may still contain a child that had not yet asked to be killed with bubblewrap.

    Args:
        control: The grader's end of the zygote's socket.
        process: The zygote, or bubblewrap.
        level: The level of isolation.
        user: The user id that was reserved for the worker.
    """
    _hang_up(control)
    if process.returncode is None:
        _ends(process)
        # The process is not reaped yet, so its pid still identifies its own group and no other.
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    control.close()
    level.kill_all(user)


def _hang_up(control: socket.socket) -> None:
    """Tell the zygote to kill all remaining processes and exit.

    Another thread that is waiting for an answer stops waiting. The socket stays open for now: if
    its descriptor were used for another file at once, that thread would wait for the wrong one.
    """
    with suppress(OSError):  # it has been closed already
        control.shutdown(socket.SHUT_RDWR)


def _ends(process: "subprocess.Popen[bytes]") -> bool:
    """Whether a process that has not been reaped exits within END_SECONDS."""
    pidfd = os.pidfd_open(process.pid)
    try:
        return _readable(pidfd, END_SECONDS)
    finally:
        os.close(pidfd)


def _readable(descriptor: int, seconds: float) -> bool:
    """Whether a descriptor becomes readable within these seconds.

    Unlike select, this takes any descriptor number.
    """
    with selectors.DefaultSelector() as selector:
        selector.register(descriptor, selectors.EVENT_READ)
        return bool(selector.select(seconds))
