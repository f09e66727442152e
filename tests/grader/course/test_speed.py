"""The fixture `speed`: which calls it makes in which process, and how it judges the answers."""

import random
import re
import subprocess
from collections import Counter

import pytest

from kit import expect, ratio, timed
from kit.speed import CALLS, CHECKED, MOST_WARM_UPS, NOT_THE_SAME, Speed
from tests.grader import small_courses
from tests.grader.warm_python import python


def doubled(rng, device, *, most):
    """The inputs of the tests."""
    return (rng.randrange(most),)


def by_another_way(n):
    """A reference that is a probe."""
    return n + n


class Laboratory:
    """Processes that only pretend, and a clock that knows what they do.

    Args:
        student: The student's function.
        seconds: What a call of it takes; the reference takes 1 and the rest of each call 0.1.
    """

    def __init__(self, student=lambda n: 2 * n, seconds=1.0, *, is_timed=True, overhead=0.1):
        self.functions = {"student": student, "reference": lambda n: 2 * n}
        self.seconds = {"student": seconds, "reference": 1.0}
        self.overhead, self.is_timed, self.now = overhead, is_timed, 0.0
        self.turns, self.open, self.told = [], 0, []

    def open_turn(self, side, function, is_repetition):
        self.turns.append((side, function, is_repetition))
        self.open += 1
        assert self.open == 1, "one process at a time"
        return PretendedTurn(self, side)

    def at_most(self, limit=1.5, *, check=None, seed=0, **options):
        """Measure."""
        options = {"inputs": doubled, "most": 99, **options}
        speed = Speed(
            self.open_turn,
            packages=[],
            record=self.told.append,
            clock=lambda: self.now,
            chance=random.Random(seed),
        )
        speed.at_most(limit, "m.double", check=check or right, **options)


class PretendedTurn:
    """A process of a laboratory: it answers as the box would."""

    def __init__(self, laboratory, side):
        self.laboratory, self.side = laboratory, side
        self.is_timed, self.last, self.calls = laboratory.is_timed, None, Counter()

    def run(self, probe, **inputs):
        self.calls[probe.__name__] += 1
        self.laboratory.now += self.laboratory.overhead
        if probe is timed.kept:
            return self.last
        if probe is timed.empty:
            return timed.digest_of(self.last)
        made = doubled(random.Random(inputs["nonce"]), "cpu", **inputs["sizes"])
        if probe is timed.made:
            return list(made)
        self.laboratory.now += self.laboratory.seconds[self.side]
        self.last = self.laboratory.functions[self.side](*made)
        return timed.digest_of(self.last)

    def close(self):
        self.laboratory.open -= 1
        self.laboratory.blocks = [*getattr(self.laboratory, "blocks", []), (self.side, self.calls)]


def right(got, n):
    """The check of the tests."""
    expect.value(got, 2 * n, of="double")


def refusal(laboratory, **options):
    """The Mismatch that ends a measurement."""
    with pytest.raises(expect.Mismatch) as caught:
        laboratory.at_most(**options)
    return caught.value


def test_the_order_is_abba_or_baab():
    """After the answers are checked, blocks come in groups of four, in an order that is drawn."""
    laboratory = Laboratory()
    laboratory.at_most()
    sides = "".join(side[0] for side, _, _ in laboratory.turns)
    assert re.fullmatch("sr(rssr|srrs){8}r?", sides)
    assert {"rssr", "srrs"} == {sides[i : i + 4] for i in range(2, 34, 4)}
    assert ["1.00 times the reference (1.00 to 1.00 in 16 pairs); required at most 1.5"] == (
        laboratory.told
    )


def test_each_block_has_its_own_process_and_the_same_calls():
    """Warm-ups are random in number; each timed call is followed by one without the function."""
    laboratory = Laboratory()
    laboratory.at_most()
    blocks = [(side, calls) for side, calls in laboratory.blocks if calls["empty"]]
    assert 4 * ratio.LOOKS[0][0] == len(blocks)
    for side, calls in blocks:
        assert calls["empty"] == CALLS
        assert calls["kept"] == (CHECKED if side == "student" else 0)
    warm_ups = {calls["timed"] - CALLS for _, calls in blocks}
    assert set(range(1, MOST_WARM_UPS + 1)) == warm_ups


def test_the_time_of_everything_but_the_call_is_subtracted():
    """Inputs and digests do not make a ratio of 2 look like less."""
    laboratory = Laboratory(seconds=2.0, overhead=0.5)
    found = refusal(laboratory)
    assert "too slow" == found.reason
    said = "2.00 times the reference (2.00 to 2.00 in 16 pairs); required at most 1.5"
    assert (("measured", said),) == found.facts
    assert [said] == laboratory.told


def test_a_function_that_is_lost_in_its_surroundings_is_a_fault_of_the_test():
    """If inputs and digests take longer than the reference, the author is told what to do."""
    with pytest.raises(
        RuntimeError, match=r"double: making inputs and the digest takes 0\.6 times"
    ):
        Laboratory(overhead=0.6).at_most()


def test_a_faster_function_passes():
    """A ratio may be below 1."""
    laboratory = Laboratory(seconds=0.25)
    laboratory.at_most()
    assert laboratory.told[0].startswith("0.25 times the reference")


def test_doubt_is_for_the_student():
    """A machine on which no verdict is possible costs nothing, and repetitions charge nobody."""
    laboratory = Laboratory()
    chance = random.Random(1)
    plain = laboratory.open_turn

    def noisy(side, function, is_repetition):
        laboratory.seconds["student"] = chance.uniform(0.9, 2.2)
        return plain(side, function, is_repetition)

    laboratory.open_turn = noisy
    laboratory.at_most()
    assert "in 64 pairs" in laboratory.told[0]
    assert laboratory.told[0].endswith("too noisy to say, so it counts as fast enough")
    charged = [not is_repetition for _, _, is_repetition in laboratory.turns]
    first = 2 + 4 * ratio.LOOKS[0][0]
    assert all(charged[:first])
    assert not any(charged[first:-1])  # the last one may only judge outputs


def test_repetitions_end_when_they_take_too_long():
    """Code that becomes slow once nobody is charged cannot keep the grader for long."""
    laboratory = Laboratory()
    seconds = iter([1.0, 2.2] * 16 + [1e4] * 99)
    plain = laboratory.open_turn

    def slower(side, function, is_repetition):
        if side == "student":
            laboratory.seconds[side] = next(seconds)
        return plain(side, function, is_repetition)

    laboratory.open_turn = slower
    laboratory.at_most()
    assert "in 16 pairs" in laboratory.told[0]
    repeated = [turn for turn in laboratory.turns if turn[2]]
    assert len(repeated) <= 5


def test_outputs_are_checked_before_anything_is_timed():
    """A wrong function is told so at once, without a time."""
    laboratory = Laboratory(student=lambda n: 3 * n + 1)
    assert "wrong value" in refusal(laboratory).reason
    assert ["student", "reference"] == [side for side, _, _ in laboratory.turns]
    assert [] == laboratory.told


def test_an_output_that_changes_is_refused():
    """The fetched output has to have the digest."""
    laboratory = Laboratory(student=lambda n: [2 * n])
    plain = timed.digest_of

    def kept(turn, probe, **inputs):
        answer = PretendedTurn.run(turn, probe, **inputs)
        return [*answer, 0] if probe is timed.kept else answer

    class Changing(PretendedTurn):
        run = kept

    laboratory.open_turn = lambda side, *_: Changing(laboratory, side)
    assert plain([0]) != plain([0, 0])
    laboratory.open = 1
    assert NOT_THE_SAME == refusal(laboratory).reason


def test_an_output_that_breaks_the_check_is_the_students_fault():
    """The check passes the reference's output, so the student's output broke it."""

    def fragile(got, n):
        assert got["value"] == 2 * n

    laboratory = Laboratory(student=lambda n: [])
    laboratory.functions["reference"] = lambda n: {"value": 2 * n}
    assert "an unusable answer" == refusal(laboratory, check=fragile).reason


def test_a_check_that_breaks_on_the_reference_is_our_fault():
    """Then its own exception is raised, which names the test."""

    def broken(got, n):
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        Laboratory().at_most(check=broken)


def test_a_check_that_refuses_the_reference_after_it_broke_is_our_fault():
    """An output that breaks a check which is wrong anyway is not blamed."""

    def wrong(got, n):
        expect.value(got["value"], 3 * n, of="double")

    with pytest.raises(TypeError):
        Laboratory().at_most(check=wrong)


@pytest.mark.parametrize(
    ("reference", "called"),
    [
        (None, "m.double"),
        ("m.by_hand", "m.by_hand"),
        (by_another_way, f"{__name__}:by_another_way"),
    ],
)
def test_the_reference_may_be_another_function(reference, called):
    """By default it is the reference solution's function of the same name."""
    laboratory = Laboratory()
    laboratory.at_most(reference=reference)
    assert {called} == {function for side, function, _ in laboratory.turns if side == "reference"}


@pytest.mark.parametrize("options", [{"device": "stand-in"}, {}])
def test_where_no_time_means_anything_outputs_are_checked(options):
    """On the simulated GPU, and where both sides share a process."""
    laboratory = Laboratory(seconds=100.0, is_timed=bool(options))
    laboratory.at_most(**options)
    assert [] == laboratory.told
    assert "wrong value" in refusal(Laboratory(student=lambda n: 1), **options).reason


def test_digests_tell_all_values_apart():
    """Different types, shapes and bits have different digests; strides do not matter."""
    import numpy as np
    import torch

    values = [
        None, True, 1, 1.0, "1", b"1", [1], (1,), {"1": 1}, [[1], []], [[], [1]], [1, []],
        0.0, -0.0,
        torch.zeros(2), torch.zeros(2, 1), torch.zeros(1, 2), -torch.zeros(2), torch.zeros(0),
        torch.zeros(2, dtype=torch.int32), torch.zeros(2, dtype=torch.bfloat16),
        np.zeros(2), np.zeros((2, 1)), np.zeros(2, dtype=np.float32),
    ]  # fmt: skip
    digests = {timed.digest_of(timed.plain(value)) for value in values}
    assert len(values) == len(digests)
    x = torch.arange(6.0).view(2, 3)
    same = [x, x.t().contiguous().t(), x.clone().requires_grad_(), torch.nn.Parameter(x)]
    assert 1 == len({timed.digest_of(timed.plain(value)) for value in same})
    with pytest.raises(TypeError, match="a value of type object cannot be timed"):
        timed.plain([object()])


@pytest.mark.slow
@pytest.mark.parametrize("wrong", [False, True])
def test_plain_pytest_checks_the_outputs(wrong, tmp_path, root):
    """Without a grader, the outputs are checked, and nothing is timed without a reference."""
    course = small_courses.with_speed(tmp_path / "course")
    reference = (course / "solutions/reference/sequences.py").read_text()
    changed = reference.replace("count = 0", "count = 1") if wrong else reference
    (course / "assignment/sequences.py").write_text(changed)
    command = [python(), "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/hidden"]
    done = subprocess.run(
        [*command, "--rootdir", course, "-c", "/dev/null", "--import-mode=importlib"],
        cwd=course,
        env={"PYTHONPATH": f"{course}:{root}", "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert ("2 failed" if wrong else "2 passed") in done.stdout, done.stdout + done.stderr
    assert "times the reference" not in done.stdout
