"""Run tests in a sandbox: call the student's code, enforce deadlines, report how calls end.

A child reports when it is about to run student code for the first time. Anything that goes wrong
before this report is the grader's fault, and the time until then is not charged. After the report,
the student's calls are charged, both in CPU time and in wall time, whether they count or are
repeated. The grader's own work, the sandbox's start-up and waiting for a busy machine are never
charged.

One child may serve several tests, as long as they leave nothing behind. `begin_test` marks
the start of the next test, and `is_shared` shows whether an earlier test has used the same child. A
failure in a shared child may have been caused by an earlier test: the caller has to call
`begin_again` and repeat the test in a child of its own. This is also why a shared child has
just the limits of a single test: if a test exceeds them because of earlier tests, it is repeated.

The sources are sent to each child; they are not mounted into the box. So exactly the files that
were hashed are graded, nothing can be swapped after the check, and one warm zygote can serve any
number of submissions.
"""

import math
import select
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from grader.base.errors import (
    Crashed,
    GraderFault,
    PolicyBroken,
    StudentFault,
    TimedOut,
)
from grader.course.courses import Limits
from grader.sandbox import endings, replies
from grader.sandbox.box import Sandbox
from grader.sandbox.channel import Channel, Gone, Late, Watch
from grader.sandbox.replies import Probe
from grader.sandbox.usage import LOOK_EVERY_SECONDS, Usage
from grader.shared import protocol, torch_compiler
from grader.shared.messages import Ending
from kit.text import printable

# The longest wait until a forked process runs student code; only a machine in trouble takes this
# long.
BEGIN_SECONDS = 120.0
LEAST_PATIENCE = 0.08  # seconds
# How long to wait for a traceback that the child was asked to print.
TRACEBACK_SECONDS = 1.0
MAX_COMPILED = 2**20  # bytes of a module's code; a short source may have a long code
# After how much wall time of its tests the CPU time of a shared child is looked up again.
LOOK_AFTER_SECONDS = 0.1


@dataclass
class Patience:
    """How long a test may do nothing at all; halved whenever a test of the submission exceeds it.

    A slow test, even on a busy machine, computes or waits for a CPU. A test that sleeps without
    using any CPU time waits for something that never happens.
    """

    seconds: float = 3.0

    def lose(self) -> None:
        """Halve the time, because a test has exceeded it."""
        self.seconds = max(LEAST_PATIENCE, self.seconds / 2)


@dataclass
class Spare:
    """Time for attempts that do not count, because their tests are repeated.

    All problems of a submission share it. An attempt that finds it used up is charged to its
    problem, so that repeating tests takes no time from which nobody is charged.
    """

    cpu_seconds: float
    wall_seconds: float

    def pay(self, *, cpu: float = 0.0, wall: float = 0.0) -> tuple[float, float]:
        """Pay for an attempt as far as possible; return the CPU time and wall time that remain."""
        paid, paid_wall = min(cpu, self.cpu_seconds), min(wall, self.wall_seconds)
        self.cpu_seconds -= paid
        self.wall_seconds -= paid_wall
        return cpu - paid, wall - paid_wall


@dataclass
class Budget:
    """What all tests of a problem may use together, and how much they have used so far.

    Attributes:
        cpu_seconds: CPU time, for all processes of a test together.
        wall_seconds: Wall time of the calls to the student's code.
        free_seconds: Extra time for each test, for example for CUDA start-up.
        spare: What pays for attempts that do not count.
    """

    cpu_seconds: float
    wall_seconds: float
    free_seconds: float = 0.0
    spare: Spare = field(default_factory=lambda: Spare(0.0, 0.0))
    cpu_used: float = 0.0
    wall_used: float = 0.0

    def charge(self, *, cpu: float = 0.0, wall: float = 0.0) -> None:
        """Record what a test, or all tests of a process, have used."""
        self.cpu_used += max(0.0, cpu - self.free_seconds)
        self.wall_used += max(0.0, wall - self.free_seconds)

    def charge_attempt(self, *, cpu: float = 0.0, wall: float = 0.0) -> None:
        """Record what an attempt has used that does not count, because its test is repeated."""
        cpu, wall = self.spare.pay(cpu=max(0.0, cpu), wall=wall)
        self.charge(cpu=cpu, wall=wall)

    def begin_again(self) -> None:
        """Have all tests of the problem repeated: what they have used does not count."""
        self.cpu_used, self.wall_used = self.spare.pay(cpu=self.cpu_used, wall=self.wall_used)

    @property
    def cpu_left(self) -> float:
        """The CPU time that the next test may use."""
        return max(0.0, self.cpu_seconds - self.cpu_used)

    @property
    def wall_left(self) -> float:
        """The wall time that the next test may use."""
        return max(0.0, self.wall_seconds - self.wall_used)


class _Asleep(Exception):
    """The test sleeps, and nothing will wake it."""


class _TookTooMuch(Exception):
    """The test uses more GPU memory than it may."""


class Session:
    """The child process of one test, or of several tests in a row.

    The child is forked at the first call. Closing the session kills it and removes everything that
    it left behind.

    Args:
        sandbox: The sandbox whose zygote forks it.
        sources: The student's files, path to content.
        limits: What a test may use.
        seed: The seed that the global generators of random, numpy and torch are set to before each
            call of the first test.
        compiled: What `compile` returned for the same sources, or a part of it. A file that is
            missing here is compiled whenever it is imported.
        forbidden: Dotted names of functions and other objects that student code must not use.
        by_hand: Definitions in which no backward pass may run, such as "autograd.linear_backward".
        budget: What all tests of the first test's problem may use together; None for no such limit.
        patience: How long a test may do nothing; shared by all tests of the submission.

    Attributes:
        is_shared: Whether the running test uses a child that an earlier test has used.
    """

    def __init__(
        self,
        sandbox: Sandbox,
        sources: dict[str, bytes],
        limits: Limits,
        *,
        seed: int = 0,
        compiled: Mapping[str, bytes] | None = None,
        forbidden: Sequence[str] = (),
        by_hand: Sequence[str] = (),
        budget: Budget | None = None,
        patience: Patience | None = None,
    ) -> None:
        self._sandbox = sandbox
        self._setup: dict[str, Any] = {
            "sources": sources,
            "compiled": dict(compiled or {}),
            "forbidden": list(forbidden),
            "by_hand": list(by_hand),
        }
        self._limits = limits
        self._budget = budget
        self._patience = patience or Patience()
        self._seed = seed
        self._test = 0
        self._has_called = False  # in the running test
        self.is_shared = False
        self._wall_left = limits.wall_seconds
        self._wall_used = 0.0
        self._cpu_charged = 0.0  # of the running child
        self._cpu_before = 0.0  # of the running child, before the running test
        self._wall_since_look = 0.0  # of the tests, since `_cpu_before` was looked up
        self._wall_is_cut = False  # whether the budget left less wall time than the limits
        self._cpu_limit = limits.cpu_seconds
        self._over: TimedOut | None = None  # set once the time is used up
        self._channel: Channel | None = None  # to the child, or to the last one after its end
        self._requests = 0

    def begin_problem(self, budget: Budget | None) -> None:
        """Charge all further tests to this budget, instead of that of an earlier problem.

        `begin_test` has to follow. The child keeps its own limit of CPU time.
        """
        self._charge_wall()
        if self._has_child:
            self._look_at_cpu()
            if self._budget:
                self._budget.charge(cpu=self._cpu_before - self._cpu_charged)
            self._cpu_charged = self._cpu_before
        self._budget = budget

    def _look_at_cpu(self) -> None:
        """Look up the CPU time that the child has used so far."""
        assert self._channel is not None
        try:
            self._cpu_before = self._sandbox.activity().cpu_seconds_of_all
        except GraderFault:
            self._channel.close()  # the child ended with its box; the next test gets another one
        self._wall_since_look = 0.0

    def begin_test(self, seed: int) -> None:
        """Begin another test: the next call belongs to it.

        Args:
            seed: The seed that the global generators are set to before each call of this test.
        """
        self._charge_wall()
        if self._has_child and self._wall_since_look >= LOOK_AFTER_SECONDS:
            self._look_at_cpu()
        self._seed, self._test = seed, self._test + 1
        self._over, self._has_called, self._wall_is_cut = None, False, False
        self._wall_left = self._limits.wall_seconds
        self.is_shared = self._has_child
        if self._channel:
            self._channel.bytes_left = protocol.MAX_ANSWER_BYTES

    def begin_again(self) -> None:
        """Restart the running test in a child of its own; see `Budget.charge_attempt`."""
        self._end_child(to_repeat=True)
        if self._budget:
            self._budget.charge_attempt(wall=self._wall_used)
        self._wall_used = 0.0
        self.begin_test(self._seed)

    def run(self, probe: Probe, inputs: dict[str, Any]) -> Any:
        """Return what a probe returns for these inputs.

        Raises:
            StudentFault: The call ended without a value; the class of the fault says why.
            GraderFault: The sandbox failed.
        """
        request = {
            "op": "run",
            "test": self._test,
            "seed": self._seed,
            "module": probe.__module__,
            "probe": probe.__name__,
            "inputs": inputs,
        }
        reply = self._request(request)
        replies.check(probe, reply)
        return reply

    def inspect(self, rules: dict[str, list[dict[str, Any]]]) -> Any:
        """Parse each source without running it.

        Return the findings by path; see `read` in kit/forbidden_calls.py.
        """
        return self._request({"op": "inspect", "rules": rules})

    def compile(self, paths: Sequence[str]) -> dict[str, bytes]:
        """Compile these sources without running them.

        Return by path what other sessions take as `compiled`. Only a child may read it. It is
        empty for what cannot be compiled, and lacks what is too large to be sent to every child.
        """
        reply = self._request({"op": "compile", "paths": list(paths), "most_bytes": MAX_COMPILED})
        if not replies.check_of(dict[str, bytes])(reply) or not reply.keys() <= set(paths):
            raise Crashed("it sent something that does not answer the request")
        return {path: code for path, code in reply.items() if len(code) <= MAX_COMPILED}

    def look_at_device(self, name: str) -> Any:
        """Check that the device "cuda" or "cpu" works, in a process that has run no student code.

        See `worker.device.look`.
        """
        return self._request({"op": "look", "device": name})

    @property
    def answered_bytes(self) -> int:
        """How much memory the answers of the running test take if all of them are kept."""
        return protocol.MAX_ANSWER_BYTES - self._channel.bytes_left if self._channel else 0

    @property
    def printed(self) -> str:
        """What the student's code has printed, without the middle if it is long."""
        return self._channel.output.text if self._channel else ""

    def close(self) -> None:
        """End the child, if there is one, without waiting for it."""
        self._end_child()
        self._charge_wall()

    @property
    def _has_child(self) -> bool:
        return self._channel is not None and self._channel.is_open

    def _end_child(self, *, to_repeat: bool = False) -> None:
        """End the child without waiting for it."""
        if self._channel is None or not self._channel.is_open:
            return
        self._channel.close()
        charge = self._charge_at_end(to_repeat=to_repeat)
        self._sandbox.end_soon(lambda ending: charge(ending.cpu_seconds_of_all))

    def _request(self, request: dict[str, Any]) -> Any:
        try:
            self._sandbox.wait_until_ready()
            if self._over:
                raise self._over
            may_be_used = self.is_shared and not self._has_called
            reply = self._ask(request)
            if may_be_used and self._answers(reply) and "used" in reply:
                # An earlier test left something behind, so run this test in a child of its own.
                self.begin_again()
                self._sandbox.wait_until_ready()  # the child that has ended is charged now
                reply = self._ask({**request, "test": self._test})
        except protocol.ProtocolError as e:
            self._end()
            raise Crashed(f"it sent something that is not an answer: {e}") from None
        except (StudentFault, GraderFault):
            raise
        # A test that expects an error could otherwise mistake our own exception for the student's.
        except Exception as e:
            raise GraderFault(f"asking the sandbox failed: {type(e).__name__}: {e}") from e
        return self._value(reply)

    def _ask(self, request: dict[str, Any]) -> Any:
        """Send a request and return the child's reply; fork a child if there is none."""
        self._requests += 1
        opened = not self._has_child
        if opened or not self._has_called:
            self._keep_to_the_budget()
            self._has_called = True
        frames = self._frames({**request, "id": self._requests}, with_setup=opened)
        if opened:
            self._open()
            self._begin(frames)
            frames = []
        assert self._channel is not None
        started = time.monotonic()
        try:
            return self._channel.exchange(frames, started + self._wall_left, self._watch())
        except (Late, _Asleep, _TookTooMuch, Gone) as e:
            how = type(e)
        finally:
            seconds = time.monotonic() - started
            self._wall_left -= seconds
            self._wall_used += seconds
        # From here on the time is ours.
        faults: dict[type[Exception], Callable[[], Exception]] = {
            Late: self._timed_out,
            _Asleep: self._fell_asleep,
            _TookTooMuch: self._took_too_much,
            Gone: self._death,
        }
        raise faults[how]()

    def _watch(self) -> Watch:
        usage = self._sandbox.usage
        if usage:
            return _MemoryWatch(usage, self._limits.device_memory_bytes)
        return _SleepWatch(self._sandbox, self._patience.seconds)

    def _keep_to_the_budget(self) -> None:
        """Reduce the test's time limits to what its problem's budget has left.

        Raises:
            TimedOut: No time is left.
        """
        budget = self._budget
        if budget is None:
            return
        if budget.cpu_left <= 0:
            raise endings.too_late_to_begin(cpu_seconds=budget.cpu_seconds)
        if budget.wall_left <= 0:
            raise endings.too_late_to_begin(wall_seconds=budget.wall_seconds)
        if not self._has_child:  # the limit of a running child cannot be changed
            left = math.ceil(budget.cpu_left + budget.free_seconds)
            self._cpu_limit = min(self._limits.cpu_seconds, left)
        if budget.wall_left + budget.free_seconds < self._wall_left:
            self._wall_left = budget.wall_left + budget.free_seconds
            self._wall_is_cut = True

    def _frames(self, request: dict[str, Any], *, with_setup: bool) -> list[protocol.Buffer]:
        """Encode a request; if that is impossible, it is the grader's fault."""
        try:
            setup = protocol.encode(self._setup, strict=True) if with_setup else []
            return setup + protocol.encode(request, views=True, strict=True)
        except protocol.ProtocolError as e:
            raise GraderFault(f"a test's request cannot be sent: {e}") from None

    def _open(self) -> None:
        """Have the zygote fork the child."""
        self._channel = Channel(self._limits.output_bytes, self._sandbox.core)
        self._cpu_charged = self._cpu_before = self._wall_since_look = 0.0
        sources: dict[str, bytes] = self._setup["sources"]
        try:
            limits = msgspec.structs.replace(self._limits, cpu_seconds=self._cpu_limit)
            self._sandbox.spawn(
                limits,
                self._channel.childs_ends,
                with_compiler=torch_compiler.is_needed_by(sources.values()),
            )
        except BaseException:
            self._channel.close()
            raise
        finally:
            self._channel.close_childs_ends()

    def _begin(self, frames: list[protocol.Buffer]) -> None:
        """Send the first request, and wait until the child is about to run student code.

        Raises:
            GraderFault: The child exits too early or takes too long. It has not run any student
                code, so this is not the student's fault.
        """
        assert self._channel is not None
        try:
            said = self._channel.exchange(frames, time.monotonic() + BEGIN_SECONDS)
        except Late:
            self._end()
            raise GraderFault(
                f"a test's process was not ready after {BEGIN_SECONDS:.0f} s"
            ) from None
        except (Gone, protocol.ProtocolError):
            ending = self._end()
            how = f"signal {ending.signal}" if ending.signal else f"exit code {ending.exit}"
            *_, reason = self.printed.strip().splitlines() or ["it printed no reason"]
            text = (
                f"a test's process ended ({how}) before it ran any student code: "
                f"{printable(reason, 500)}"
            )
            raise GraderFault(text) from None
        if said != {"begins": True}:
            raise GraderFault("a test's process answered before it was asked")

    def _end(self) -> Ending:
        """End the child, and read the rest of its output."""
        assert self._channel is not None
        self._channel.hang_up()
        try:
            ending = self._sandbox.end()
        finally:
            self._channel.read_the_rest()
        # A test that fails in a shared child is repeated.
        self._charge_at_end(to_repeat=self.is_shared)(ending.cpu_seconds_of_all)
        return ending

    def _charge_at_end(self, *, to_repeat: bool) -> Callable[[float], None]:
        """A function that charges the child's CPU time, which is known after its end.

        Args:
            to_repeat: Whether the running test is repeated, so that this attempt does not count.
        """
        budget, charged = self._budget, self._cpu_charged
        most = self._cpu_before if to_repeat else math.inf

        def charge(used: float) -> None:
            if budget:
                budget.charge(cpu=min(used, most) - charged)
                budget.charge_attempt(cpu=used - most)

        return charge

    def _charge_wall(self) -> None:
        if self._budget:
            self._budget.charge(wall=self._wall_used)
        self._wall_since_look += self._wall_used
        self._wall_used = 0.0

    def _took_too_much(self) -> StudentFault:
        """End a test that exceeds its GPU memory limit by the driver's count."""
        self._end()
        assert self._sandbox.gpu is not None
        return endings.took_too_much(self._limits, self._sandbox.gpu, self._tracebacks)

    def _fell_asleep(self) -> TimedOut:
        self._patience.lose()
        self._read_traceback()
        self._end()
        self._over = endings.asleep(self._tracebacks)
        return self._over

    def _read_traceback(self) -> None:
        """Have the child print a traceback; keep only what it prints within a moment."""
        assert self._channel is not None
        pipe = self._channel.tracebacks
        if not pipe.is_open:
            return
        pipe.forget()  # student code may have printed there too
        self._sandbox.print_traceback()
        started = time.monotonic()
        poll = select.poll()
        poll.register(pipe, select.POLLIN)
        pause, deadline = TRACEBACK_SECONDS, time.monotonic() + TRACEBACK_SECONDS
        while time.monotonic() < deadline and poll.poll(1000 * pause) and pipe.read():
            pause = TRACEBACK_SECONDS / 20  # the rest of the traceback follows at once
        self._wall_used += time.monotonic() - started  # student code may have kept it waiting

    def _timed_out(self) -> TimedOut:
        busy = self._sandbox.gpu.busy() if self._sandbox.gpu else False
        self._read_traceback()
        self._end()
        on_gpu = busy or (busy is None and endings.waited_for_the_gpu(self._tracebacks))
        self._over = endings.late(
            self._limits, self._tracebacks, is_cut=self._wall_is_cut, on_gpu=on_gpu
        )
        return self._over

    def _death(self) -> StudentFault | GraderFault:
        """Why the child closed its channel."""
        ending = self._end()
        fault = endings.death(
            ending,
            self._limits,
            self._tracebacks,
            cpu_limit=self._cpu_limit,
            is_isolated=self._sandbox.isolation != "none",
        )
        if isinstance(fault, TimedOut):
            self._over = fault
        return fault

    @property
    def _tracebacks(self) -> str:
        return self._channel.tracebacks.text if self._channel else ""

    def _answers(self, reply: Any) -> bool:
        """Whether a reply answers the last request."""
        return (
            type(reply) is dict
            and type(reply.get("id")) is int
            and bool(reply["id"] == self._requests)
        )

    def _value(self, reply: Any) -> Any:
        """Return the value of a reply; raise for any other reply."""
        if not self._answers(reply):
            raise Crashed("it sent something that does not answer the request")
        if "value" in reply:
            return reply["value"]
        if "unsendable" in reply:
            raise Crashed(f"what it returned cannot be sent: {reply['unsendable']}")
        try:
            if "policy" in reply:
                broken = reply["policy"]
                raise PolicyBroken(f"calls {broken['name']}", endings.place(broken["where"]))
            raise endings.exception(reply["raised"], self._limits, self._sandbox.gpu)
        except StudentFault:
            raise
        # Reading the reply may fail in any way: student code may have sent it.
        except Exception:
            raise Crashed("it sent something that does not answer the request") from None


class _MemoryWatch(Watch):
    """Raises `_TookTooMuch` when a test uses too much GPU memory."""

    pause = LOOK_EVERY_SECONDS

    def __init__(self, usage: Usage, limit: int) -> None:
        self._usage, self._limit = usage, limit

    def check(self) -> None:
        if self._usage.exceeds(self._limit):
            raise _TookTooMuch


class _SleepWatch(Watch):
    """Raises `_Asleep` when a test has stopped doing anything.

    Args:
        sandbox: The sandbox that the test runs in.
        seconds: How long the test may do nothing.
    """

    def __init__(self, sandbox: Sandbox, seconds: float) -> None:
        self._sandbox, self._seconds = sandbox, seconds
        self._nanoseconds = -1  # CPU time of the test at the last look
        self._since = self._looked = time.monotonic()
        self.pause = seconds / 4

    def check(self) -> None:
        now = time.monotonic()
        if now < self._looked + self.pause:
            return
        activity = self._sandbox.activity()
        if not activity.sleeps or activity.nanoseconds != self._nanoseconds:
            self._since, self._nanoseconds = now, activity.nanoseconds
        self._looked = now
        if now - self._since >= self._seconds:
            raise _Asleep
