"""One child of a zygote, from its fork to its end, with the channel to it."""

import select
import time
from collections.abc import Callable

from grader.base.errors import GraderFault
from grader.course.courses import Limits
from grader.sandbox.box import Sandbox
from grader.sandbox.channel import Channel, Gone, Late
from grader.wire import protocol
from grader.wire.messages import Ending
from kit.text import printable

# The longest wait until a forked process runs student code; only a machine in trouble takes this
# long.
BEGIN_SECONDS = 120.0
# How long to wait for a traceback that the child was asked to print.
TRACEBACK_SECONDS = 1.0


class Child:
    """A process that runs student code. Once it has ended, what it printed can still be read.

    Args:
        sandbox: The sandbox whose zygote forks it.
        limits: What it may use.
        with_compiler: See `Sandbox.spawn`.

    Raises:
        GraderFault: The zygote has exited.
    """

    def __init__(self, sandbox: Sandbox, limits: Limits, *, with_compiler: bool) -> None:
        self._sandbox = sandbox
        self.channel = Channel(limits.output_bytes)
        try:
            sandbox.spawn(limits, self.channel.childs_ends, with_compiler=with_compiler)
        except BaseException:
            self.channel.close()
            raise
        finally:
            self.channel.close_childs_ends()

    @property
    def printed(self) -> str:
        """What the student's code has printed, without the middle if it is long."""
        return self.channel.output.text

    @property
    def tracebacks(self) -> str:
        """What Python itself has printed."""
        return self.channel.tracebacks.text

    @property
    def is_running(self) -> bool:
        """Whether it can still be reached."""
        return self.channel.is_open

    def cpu_seconds(self) -> float | None:
        """The CPU time that all its processes have used; None if it has ended with its box."""
        try:
            return self._sandbox.activity().cpu_seconds_of_all
        except GraderFault:
            self.channel.close()
            return None

    def begin(self, frames: list[protocol.Buffer]) -> None:
        """Send the first request, and wait until the child is about to run student code.

        Raises:
            GraderFault: The child exits too early or takes too long. It has not run any student
                code, so this is not the student's fault.
        """
        try:
            said = self.channel.exchange(frames, time.monotonic() + BEGIN_SECONDS)
        except Late:
            self.end()
            raise GraderFault(
                f"a test's process was not ready after {BEGIN_SECONDS:.0f} s"
            ) from None
        except (Gone, protocol.ProtocolError):
            ending = self.end()
            how = f"signal {ending.signal}" if ending.signal else f"exit code {ending.exit}"
            *_, reason = self.printed.strip().splitlines() or ["it printed no reason"]
            text = (
                f"a test's process ended ({how}) before it ran any student code: "
                f"{printable(reason, 500)}"
            )
            raise GraderFault(text) from None
        if said != {"begins": True}:
            raise GraderFault("a test's process answered before it was asked")

    def read_traceback(self) -> float:
        """Have the child print a traceback; keep only what it prints within a moment.

        Return how many seconds student code may have kept the grader waiting.
        """
        pipe = self.channel.tracebacks
        if not pipe.is_open:
            return 0.0
        started = time.monotonic()
        pipe.forget()  # student code may have printed there too
        self._sandbox.print_traceback()
        poll = select.poll()
        poll.register(pipe, select.POLLIN)
        pause, deadline = TRACEBACK_SECONDS, time.monotonic() + TRACEBACK_SECONDS
        while time.monotonic() < deadline and poll.poll(1000 * pause) and pipe.read():
            pause = TRACEBACK_SECONDS / 20  # the rest of the traceback follows at once
        return time.monotonic() - started

    def end(self) -> Ending:
        """End the child, and read the rest of its output.

        Raises:
            GraderFault: See `Sandbox.end`.
        """
        self.channel.hang_up()
        try:
            return self._sandbox.end()
        finally:
            self.channel.read_the_rest()

    def end_soon(self, charge: Callable[[Ending], None]) -> None:
        """End the child without waiting for it.

        Args:
            charge: Called with how it ended, before the next test begins.
        """
        self.channel.close()
        self._sandbox.end_soon(charge)
