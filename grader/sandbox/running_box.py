"""One box with its zygote, from its start to its end."""

import json
import os
import selectors
import signal
import socket
import struct
import subprocess
import tempfile
import weakref
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

from grader.base import interrupts
from grader.base.errors import CourseFault, GraderFault, SandboxUnavailable
from grader.sandbox import visible_files
from grader.sandbox.levels import Level
from grader.sandbox.levels.level import Order, Plan
from kit.safe_text import printable

START_SECONDS = 120.0
END_SECONDS = 15.0
# Of the sender of a message, as the kernel adds them: process id outside the box, user, group.
CREDENTIALS = struct.Struct("iII")


class RunningBox:
    """A box that starts in the background; `wait_until_ready` waits for its zygote.

    Args:
        level: The level of isolation.
        plan: What the box has.

    Raises:
        SandboxUnavailable: The level cannot be used on this machine.
    """

    process: "subprocess.Popen[bytes]"  # the zygote, or the program that started it
    _end_processes: "weakref.finalize[..., RunningBox]"

    def __init__(self, level: Level, plan: Plan) -> None:
        self._level = level
        self._folder = level.new_folder()
        self._errors: IO[bytes] = tempfile.TemporaryFile()
        # What the zygote reports about itself; empty until it is ready.
        self.facts: dict[str, Any] = {}
        # The security properties that were verified; empty until then, and without isolation.
        self.promises: list[str] = []
        self.host_pid = 0  # the zygote's process id outside the box; 0 until it is ready
        self._refusal = ""  # why the course's fault keeps the zygote from starting
        self._pidfd: int | None = None
        self._requests = 0
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._control.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
        try:
            self._start(plan, theirs.fileno())
        except BaseException:
            self._control.close()
            self._forget_files()
            raise
        finally:
            theirs.close()

    def _start(self, plan: Plan, control_fd: int) -> None:
        user = visible_files.unused_user()
        # An interrupt inside Popen would leave a running process without a handle to it.
        with interrupts.held():
            order = Order(
                **vars(plan),
                folder=Path(self._folder.name),
                control_fd=control_fd,
                user=user,
                output=self._errors,
            )
            self.process = self._level.start(order)
            # Also stops the processes if an interrupt comes before the caller has this object.
            self._end_processes = weakref.finalize(
                self, _end_processes, self._control, self.process, self._level, user
            )

    def wait_until_ready(self) -> None:
        """Wait until the zygote has imported everything, and check how strictly it is isolated.

        Raises:
            SandboxUnavailable: The box cannot be started on this machine, or does not isolate
                strictly enough; the message says why.
            CourseFault: A module that the course preloads, or its probes, cannot be imported.
            GraderFault: The start takes too long, or files of the grader are missing.
        """
        if self.facts:
            return
        if self._refusal:
            raise CourseFault(self._refusal)
        self._control.settimeout(START_SECONDS)
        try:
            hello, sender, *_ = self._control.recvmsg(65536, socket.CMSG_SPACE(CREDENTIALS.size))
        except TimeoutError:
            raise GraderFault(f"the sandbox was not ready after {START_SECONDS:.0f} s") from None
        if not hello:
            raise SandboxUnavailable(f"the sandbox cannot be started: {self._last_words()}")
        facts = json.loads(hello)
        if reason := facts.get("not_preloaded"):
            self._refusal = reason
            raise CourseFault(self._refusal)
        self._check(self._level.promises(facts))
        self.host_pid, *_ = CREDENTIALS.unpack(sender[0][2])
        if self._level.is_isolated:
            # If memory runs out, the kernel then kills the box first.
            with suppress(OSError):
                Path(f"/proc/{self.host_pid}/oom_score_adj").write_text("900")
        self._pidfd = os.pidfd_open(self.host_pid)
        self.facts = facts

    def _last_words(self) -> str:
        """What a zygote printed that has exited, with advice."""
        self.process.wait(END_SECONDS)
        self._errors.seek(0)
        said = printable(self._errors.read().decode(errors="replace").strip() or "nothing", 2000)
        return "\n".join(filter(None, [said, self._level.advice(said)]))

    def _check(self, promises: dict[str, bool]) -> None:
        """Refuse a box that isolates less strictly than requested."""
        if broken := [what for what, holds in promises.items() if not holds]:
            raise SandboxUnavailable(
                f"the sandbox started, but is not secure. This is not true: {'; '.join(broken)}"
            )
        self.promises = list(promises)

    def send(self, request: dict[str, Any], descriptors: Sequence[int] = ()) -> None:
        """Send the zygote a request, and pass it these file descriptors.

        Raises:
            OSError: The zygote has exited. Reading its next answer reports that too.
        """
        self._control.settimeout(END_SECONDS)
        self._requests += 1
        numbered = {**request, "number": self._requests}
        socket.send_fds(self._control, [json.dumps(numbered).encode()], descriptors)

    def answer(self) -> dict[str, Any]:
        """The zygote's answer to the last request.

        If an exception has kept an earlier answer from being read, that one is dropped.

        Raises:
            OSError: It did not answer.
        """
        while answer := self._control.recv(65536):
            read = json.loads(answer)
            if read["number"] == self._requests:
                told: dict[str, Any] = read["told"]
                return told
        raise OSError("it closed its socket")

    def kill(self) -> None:
        """Kill all processes in the box.

        Killing bubblewrap alone is not enough once the zygote runs as another user.
        """
        if self._pidfd is not None:
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._pidfd, signal.SIGKILL)
        self.process.kill()

    def end(self) -> bool:
        """Stop all processes in the box; return False if that took too long."""
        if self.process.returncode is None:
            _hang_up(self._control)
            if not _ends(self.process):
                self.kill()
        self._end_processes()
        ended = True
        if self._pidfd is not None:
            ended = _readable(self._pidfd, END_SECONDS)  # waits until all its memory is freed
            os.close(self._pidfd)
            self._pidfd = None
        self._forget_files()
        return ended

    def _forget_files(self) -> None:
        self._errors.close()
        self._level.empty(Path(self._folder.name))
        self._folder.cleanup()


def _end_processes(
    control: socket.socket, process: "subprocess.Popen[bytes]", level: Level, user: int
) -> None:
    """Stop the zygote, wait until bubblewrap has exited, then kill bubblewrap's process group.

    The group may still contain a child that had not yet asked to be killed with bubblewrap.
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
