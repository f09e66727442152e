"""The fixture `speed`: compares the time of a student's function with that of a reference.

    def test_as_fast_as_ours(student, speed):
        \"\"\"The sums take at most 1.5 times as long as ours.\"\"\"
        speed.at_most(1.5, "scan.prefix_sums", inputs=probes.sequences, check=right, n=2**20)

The clock is in the process of the test. It runs from the moment when a nonce is sent to the moment
when the digest of the full output has arrived; `timed` does what lies between. Both functions do
the same there except for their own work. The time of everything but the call is measured in the
reference's process and subtracted on both sides.

The order is reference, student, student, reference, or the other way round; see `ratio`. Each block
of calls has a process of its own, and no process of the other side lives at the same time. So a
student's code can neither recognise the reference nor slow it down, and no cache, thread or kernel
of one block reaches the next.

Some calls are checked, and no call can be known to be unchecked before its digest has arrived:
then its full output is fetched, must have the digest, and is compared with mathematics. Code that
skips the work of a call can give a digest, but no output that fits it.
"""

import itertools
import math
import random
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from kit import expect, ratio, timed

Side = Literal["student", "reference"]
# Calls of a block that are timed, how many of them are checked, and how many calls may come before.
CALLS, CHECKED, MOST_WARM_UPS = 5, 2, 3
# Repetitions end at the latest when they have taken this many times the time of the first look.
REPETITIONS = 6
# Making inputs and digests may take half as long as the reference itself, and no longer. Code that
# does them faster than `timed` does, in the student's process, gains at most this.
MOST_OVERHEAD = 0.5
ABBA: list[Side] = ["reference", "student", "student", "reference"]
BAAB: list[Side] = ["student", "reference", "reference", "student"]
UNUSABLE = "an unusable answer"
NOT_THE_SAME = "the output differs from the one whose digest was sent when the clock stopped"


class Turn(Protocol):
    """A process of its own for calls to one side.

    Attributes:
        is_timed: Whether its times mean anything.
    """

    is_timed: bool

    def run(self, probe: Callable[..., Any], **inputs: Any) -> Any:
        """Return what a probe returns there."""

    def close(self) -> None:
        """End the process."""


# Opens a turn: of which side, for which function, and whether it is a repetition, which nobody is
# charged for.
Opens = Callable[[Side, str, bool], Turn]
Check = Callable[..., object]


class Speed:
    """The fixture.

    Args:
        open_turn: Opens a process.
        packages: The names of the packages that the course lists.
        record: Called with the measured ratio in words.
        clock: The clock, in seconds.
        chance: Draws nonces, and which calls are checked. Nobody may foresee what it draws.
        device: The device of tests that name none.
        timed_on: The devices on which a time means anything.
    """

    def __init__(
        self,
        open_turn: Opens,
        *,
        packages: Sequence[str],
        record: Callable[[str], object],
        clock: Callable[[], float] = time.perf_counter,
        chance: random.Random | None = None,
        device: str = "cpu",
        timed_on: Sequence[str] = ("cpu", "cuda"),
    ) -> None:
        self._open_turn, self._packages, self._record = open_turn, packages, record
        self._clock, self._device, self._timed_on = clock, device, timed_on
        self._chance = chance or random.SystemRandom()

    def at_most(
        self,
        limit: float,
        function: str,
        *,
        inputs: Callable[..., Sequence[Any]],
        check: Check,
        reference: Callable[..., Any] | str | None = None,
        device: str | None = None,
        **sizes: Any,
    ) -> None:
        """Check that a function takes at most `limit` times as long as a reference.

        What cannot be said because the machine is too noisy counts as fast enough.

        Args:
            limit: The largest ratio, such as 1.5.
            function: The student's function, such as "scan.prefix_sums".
            inputs: A probe that makes its arguments: `inputs(rng, device, **sizes)` returns a
                tuple. All of them must depend on `rng`, and the output on all of them.
            check: `check(got, *arguments)` compares an output with mathematics by means of
                `expect`. It is called up to 130 times.
            reference: A probe that is called with the same arguments, or the name of another
                function of the course's reference. By default, the reference's own `function`.
            device: "cpu" or "cuda"; by default, that of the test. On a "stand-in", outputs are
                checked and nothing is timed.
            sizes: Further arguments of `inputs`.

        Raises:
            Mismatch: An output is wrong or is not the one of its digest, or the function is too
                slow.
        """
        device = device or self._device
        functions: dict[Side, str] = {
            "student": function,
            "reference": _name_of(function if reference is None else reference),
        }
        made_by = {
            "inputs": _name_of(inputs),
            "sizes": sizes,
            "packages": list(self._packages),
            "device": device,
        }
        measurement = _Measurement(
            self._open_turn, self._clock, self._chance, functions, made_by, check
        )
        is_timed = measurement.check_answers()
        if is_timed and device in self._timed_on:
            found = ratio.judged(measurement.ratios(), limit)
            measurement.check_the_rest()
            self._record(str(found))
            if found.says == "too slow":
                raise expect.Mismatch(measurement.of, "too slow", facts=[("measured", str(found))])


def _name_of(function: Callable[..., Any] | str) -> str:
    if isinstance(function, str):
        return function
    return f"{function.__module__}:{function.__name__}"


@dataclass
class _Measurement:
    """One measurement: its blocks, and the outputs that are still to be checked."""

    open_turn: Opens
    clock: Callable[[], float]
    chance: random.Random
    functions: dict[Side, str]
    made_by: dict[str, Any]  # what the inputs are made by
    check: Check
    unchecked: list[tuple[int, Any]] = field(default_factory=list)  # a nonce and the output
    overheads: list[float] = field(default_factory=list)

    @property
    def of(self) -> str:
        """The name of the student's function."""
        return self.functions["student"].rpartition(".")[2]

    def check_answers(self) -> bool:
        """Check two outputs without a clock; return whether times mean anything here."""
        with closing(self._open("student")) as turn:
            for _ in range(2):
                self._fetch(turn, *self._called(turn, "student")[1:])
            is_timed = turn.is_timed
        return self._judge_later() and is_timed

    def _judge_later(self) -> bool:
        """Judge the fetched outputs; return whether times mean anything for the reference."""
        with closing(self._open("reference")) as turn:
            self._judge(turn)
            return turn.is_timed

    def ratios(self) -> Iterator[float]:
        """Measure groups of four blocks in the order ABBA; yield the ratio of each group."""
        started, longest = self.clock(), float("inf")
        for number in itertools.count():
            if number == ratio.LOOKS[0][0]:
                longest = REPETITIONS * (self.clock() - started)
                started = self.clock()
            if self.clock() - started > longest:
                return
            order: list[Side] = self.chance.choice([ABBA, BAAB])
            is_repetition = number >= ratio.LOOKS[0][0]
            blocks = [(side, *self._block(side, is_repetition)) for side in order]
            first, second = self._ratio(*blocks[:2]), self._ratio(*blocks[2:])
            yield math.sqrt(first * second)

    def _ratio(self, *pair: tuple[Side, float, float]) -> float:
        """The ratio of two neighbouring blocks, without what is not the functions' time."""
        times = {side: (whole, overhead) for side, whole, overhead in pair}
        whole, overhead = times["reference"]
        ours, theirs = whole - overhead, times["student"][0] - overhead
        self.overheads.append(overhead / ours if ours > 0 else float("inf"))
        # Noise may hide a function that takes almost no time; that is no student's loss.
        return max(0.0, theirs) / ours if ours > 0 else 0.0

    def check_the_rest(self) -> None:
        """Judge the last outputs, and refuse a test whose function takes too little time.

        Raises:
            Mismatch: An output is wrong.
            RuntimeError: The reference takes less time than everything around it.
        """
        if self.unchecked:
            self._judge_later()
        share = statistics.median(self.overheads)
        if share > MOST_OVERHEAD:
            raise RuntimeError(
                f"{self.of}: making inputs and the digest takes {share:.1f} times as long as the "
                f"reference, at most {MOST_OVERHEAD:g} is allowed; give the function more work"
            )

    def _block(self, side: Side, is_repetition: bool) -> tuple[float, float]:
        """The median times of a call, and of everything but the call, in a new process."""
        checked = self.chance.sample(range(CALLS), CHECKED if side == "student" else 0)
        calls, empties = [], []
        with closing(self._open(side, is_repetition)) as turn:
            for _ in range(self.chance.randint(1, MOST_WARM_UPS)):
                self._called(turn, side)
            for number in range(CALLS):
                seconds, nonce, digest = self._called(turn, side)
                calls.append(seconds)
                if number in checked:
                    self._fetch(turn, nonce, digest)
                empties.append(self._clocked(turn, timed.empty)[0])
            if side == "reference":
                self._judge(turn)
        return statistics.median(calls), statistics.median(empties)

    def _open(self, side: Side, is_repetition: bool = False) -> Turn:
        return self.open_turn(side, self.functions[side], is_repetition)

    def _called(self, turn: Turn, side: Side) -> tuple[float, int, bytes]:
        """Call the function of a side; return the seconds, the nonce and the digest."""
        return self._clocked(turn, timed.timed, function=self.functions[side])

    def _clocked(
        self, turn: Turn, probe: Callable[..., bytes], **more: str
    ) -> tuple[float, int, bytes]:
        nonce = self.chance.getrandbits(62)
        started = self.clock()
        digest = turn.run(probe, nonce=nonce, **more, **self.made_by)
        return self.clock() - started, nonce, digest

    def _fetch(self, turn: Turn, nonce: int, digest: bytes) -> None:
        """Fetch the last output; it must be the one whose digest was sent.

        Raises:
            Mismatch: It is another one.
        """
        got = turn.run(timed.kept)
        try:
            got = timed.plain(got)
        except Exception:  # it may be a tensor without memory
            raise expect.Mismatch(self.of, UNUSABLE) from None
        if timed.digest_of(got) != digest:
            raise expect.Mismatch(self.of, NOT_THE_SAME)
        self.unchecked.append((nonce, got))

    def _judge(self, turn: Turn) -> None:
        """Compare the fetched outputs with mathematics.

        The inputs are made again, in the reference's process.
        """
        waiting, self.unchecked = self.unchecked, []
        for nonce, got in waiting:
            arguments = turn.run(timed.made, nonce=nonce, **self.made_by)
            try:
                self.check(got, *arguments)
            except expect.Mismatch:
                raise
            except Exception:
                if self._accepts_the_reference(turn, nonce, arguments):
                    raise expect.Mismatch(self.of, UNUSABLE) from None
                raise

    def _accepts_the_reference(self, turn: Turn, nonce: int, arguments: Sequence[Any]) -> bool:
        """Whether the check works, so that an output which broke it is to blame."""
        function = self.functions["reference"]
        turn.run(timed.timed, nonce=nonce, function=function, **self.made_by)
        try:
            self.check(turn.run(timed.kept), *arguments)
        except Exception:
            return False
        return True
