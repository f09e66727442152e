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

import time
from collections.abc import Sequence
from typing import Any

from grader.base import judging_time
from grader.base.errors import Crashed, GraderFault, StudentFault, TimedOut
from grader.course.courses import Limits
from grader.sandbox import reply_checks, timeout_and_crash
from grader.sandbox.child_process import Child, Gone, Late
from grader.sandbox.gpu_readings import LOOK_AT_MEMORY_SECONDS
from grader.sandbox.reply_checks import Probe
from grader.sandbox.sandbox import Sandbox
from grader.sandbox.time_budgets import Budget, Meter, Patience
from grader.wire import protocol, torch_compiler
from grader.wire.zygote_messages import Ending


class Asleep(Exception):
    """The test sleeps, and nothing will wake it."""


class TookTooMuch(Exception):
    """The test uses more GPU memory than it may."""


class _Watch:
    """Raises `TookTooMuch` for a test that uses too much GPU memory, `Asleep` for one that sleeps.

    With a GPU, a test may wait for it, so its sleep is not watched.

    Args:
        sandbox: The sandbox that the test runs in.
        device_memory_bytes: How much GPU memory the test may use.
        seconds: How long the test may do nothing.
    """

    def __init__(self, sandbox: Sandbox, device_memory_bytes: int, seconds: float) -> None:
        self._sandbox, self._most_bytes, self._seconds = sandbox, device_memory_bytes, seconds
        self._nanoseconds = -1  # CPU time of the test at the last look
        self._since = self._looked = time.monotonic()
        self.pause = LOOK_AT_MEMORY_SECONDS if sandbox.usage else seconds / 4

    def check(self) -> None:
        if not self._sandbox.usage:
            self._check_sleep()
        elif self._sandbox.usage.exceeds(self._most_bytes):
            raise TookTooMuch

    def _check_sleep(self) -> None:
        now = time.monotonic()
        if now < self._looked + self.pause:
            return
        activity = self._sandbox.activity()
        if not activity.sleeps or activity.nanoseconds != self._nanoseconds:
            self._since, self._nanoseconds = now, activity.nanoseconds
        self._looked = now
        if now - self._since >= self._seconds:
            raise Asleep


class DiskFull(Exception):
    """The test found a disk full that it shares with others."""


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
        forbidden: Dotted names of functions and other objects that student code must not use.
        by_hand: Definitions in which no backward pass may run, such as "autograd.linear_backward".
        budget: What all tests of the problem may use together; None for no such limit.
        patience: How long a test may do nothing; shared by all tests of the submission.
    """

    def __init__(
        self,
        sandbox: Sandbox,
        sources: dict[str, bytes],
        limits: Limits,
        *,
        seed: int = 0,
        forbidden: Sequence[str] = (),
        by_hand: Sequence[str] = (),
        budget: Budget | None = None,
        patience: Patience | None = None,
    ) -> None:
        self._sandbox = sandbox
        self._setup = {
            "sources": sources,
            "forbidden": list(forbidden),
            "by_hand": list(by_hand),
        }
        self._with_compiler = torch_compiler.is_needed_by(sources.values())
        self._limits = limits
        self._meter = Meter(limits, budget)
        self._patience = patience or Patience()
        self._seed = seed
        self._test = 0
        self._requests = 0
        self._has_called = False  # in the running test
        # Whether the running test uses a child that an earlier test has used.
        self.is_shared = False
        self._over: TimedOut | None = None  # set once the time is used up
        self._child: Child | None = None  # or the last one, after its end

    def begin_test(self, seed: int) -> None:
        """Begin another test: the next call belongs to it.

        Args:
            seed: The seed that the global generators are set to before each call of this test.
        """
        self._meter.begin_test()
        child = self._running
        if child and self._meter.has_to_look:
            self._meter.look(child.cpu_seconds())
        self._seed, self._test = seed, self._test + 1
        self._over, self._has_called = None, False
        self.is_shared = self._running is not None
        self.forget_answers()

    def begin_again(self) -> None:
        """Restart the running test in a child of its own; see `Budget.charge_attempt`."""
        self._end_soon(to_repeat=True)
        self._meter.repeat()
        self.begin_test(self._seed)

    def run(self, probe: Probe, inputs: dict[str, Any]) -> Any:
        """Return what a probe returns for these inputs.

        Raises:
            StudentFault: The call ended without a value; the class of the fault says why.
            ProtocolError: No frame can hold the inputs. They may come from an answer, so `blame`
                finds out whose fault this is.
            GraderFault: The sandbox failed.
        """
        request = {
            "op": "run", "test": self._test, "seed": self._seed, "module": probe.__module__,
            "probe": probe.__name__, "inputs": inputs,
        }  # fmt: skip
        reply = self._request(request)
        reply_checks.check(probe, reply)
        return reply

    def inspect(self, rules: dict[str, list[dict[str, Any]]]) -> Any:
        """Parse each source without running it.

        Return the findings by path; see `read` in kit/forbidden_in_source.py.
        """
        return self._request({"op": "inspect", "rules": rules})

    def look_at_device(self, name: str) -> Any:
        """Check that the device "cuda" or "cpu" works, in a process that has run no student code.

        See `worker.test_process.look_at_device`.
        """
        return self._request({"op": "look", "device": name})

    def forget_answers(self) -> None:
        """Allow further answers as much memory again, because the caller keeps none of the last."""
        if self._child:
            self._child.bytes_left = protocol.MAX_ANSWER_BYTES

    @property
    def answered_bytes(self) -> int:
        """How much memory the answers of the running test take if all of them are kept."""
        return protocol.MAX_ANSWER_BYTES - self._child.bytes_left if self._child else 0

    def close(self) -> None:
        """End the child, if there is one, without waiting for it."""
        self._end_soon()
        self._meter.charge_wall()

    @property
    def _running(self) -> Child | None:
        return self._child if self._child and self._child.is_open else None

    def _end_soon(self, *, to_repeat: bool = False) -> None:
        """End the child without waiting for it."""
        if child := self._running:
            child.end_soon(self._meter.at_the_end(to_repeat=to_repeat))

    def _request(self, request: dict[str, Any]) -> Any:
        with judging_time.stopped():
            reply = self._reply_to(request)
        return reply_checks.value_of(reply, self._requests, self._limits, self._sandbox.gpu)

    def _reply_to(self, request: dict[str, Any]) -> Any:
        try:
            self._sandbox.wait_until_ready()
            if self._over:
                raise self._over
            may_be_used = self.is_shared and not self._has_called
            reply = self._ask(request)
            if may_be_used and reply_checks.is_used(reply, self._requests):
                # An earlier test left something behind, so run this test in a child of its own.
                self.begin_again()
                self._sandbox.wait_until_ready()  # the child that has ended is charged now
                reply = self._ask({**request, "test": self._test})
            return reply
        except (StudentFault, GraderFault, protocol.ProtocolError):
            raise
        # A test that expects an error could otherwise mistake our own exception for the student's.
        except Exception as e:
            raise GraderFault(f"asking the sandbox failed: {type(e).__name__}: {e}") from e

    def _ask(self, request: dict[str, Any]) -> Any:
        """Send a request and return the child's reply; fork a child if there is none."""
        self._requests += 1
        child = self._running
        if child is None or not self._has_called:
            self._meter.keep_to_the_budget(with_new_child=child is None)
            self._has_called = True
        frames = _encoded({**request, "id": self._requests})
        if child is None:
            limits = self._meter.begin_child()
            child = self._child = Child(self._sandbox, limits, with_compiler=self._with_compiler)
            child.begin(_encoded(self._setup) + frames)
            frames = []
        watched = _Watch(self._sandbox, self._limits.device_memory_bytes, self._patience.seconds)
        started = time.monotonic()
        try:
            reply = child.exchange(frames, started + self._meter.wall_left, watched)
            if reply_checks.finds_a_full_disk(reply) and self._sandbox.activity().disk_was_full:
                raise DiskFull
            return reply
        except (Late, Asleep, TookTooMuch, DiskFull, Gone, protocol.ProtocolError) as e:
            why = e
        finally:
            self._meter.spend(time.monotonic() - started)
        raise self._fault(why, child) from None

    def _fault(self, why: Exception, child: Child) -> Exception:
        """End a child that has not replied, and say why. The time that this takes is ours."""
        if isinstance(why, Asleep):
            self._patience.lose()
        if isinstance(why, (Asleep, Late)):
            self._meter.spend(child.read_traceback())
        ending = child.end()
        # A test that fails in a shared child is repeated.
        self._meter.at_the_end(to_repeat=self.is_shared)(ending)
        fault = self._told(why, ending, child.tracebacks.text)
        if isinstance(fault, TimedOut):
            self._meter.blame(fault)
            self._over = fault  # all further calls of the test end in the same way
        return fault

    def _told(self, why: Exception, ending: Ending, tracebacks: str) -> Exception:
        match why:
            case Asleep():
                return timeout_and_crash.asleep(tracebacks)
            case Late():
                return timeout_and_crash.late(
                    self._limits, tracebacks, is_cut=self._meter.wall_is_cut
                )
            case TookTooMuch():
                assert self._sandbox.gpu is not None
                return timeout_and_crash.took_too_much(self._limits, self._sandbox.gpu, tracebacks)
            case DiskFull() if not ending.breach:  # as its zygote has just looked up
                return timeout_and_crash.disk_is_full()
            case protocol.ProtocolError():
                return Crashed(f"it sent something that is not an answer: {why}")
        return timeout_and_crash.death(
            ending,
            self._limits,
            tracebacks,
            cpu_limit=self._meter.cpu_limit,
            is_isolated=self._sandbox.isolation != "none",
        )


def _encoded(what: dict[str, Any]) -> list[protocol.Buffer]:
    """Encode what a child is sent."""
    try:
        return protocol.encode(what, views=True, strict=True)
    except protocol.ProtocolError as e:
        raise protocol.ProtocolError(f"a test's request cannot be sent: {e}") from None
