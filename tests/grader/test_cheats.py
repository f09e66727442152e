"""Run code that pretends to be fast: each file in cheats/ is one cheat with its expected outcome.

A cheat is a module `work.py` with a function `product(a, b)`. It is graded in the real sandbox by a
test of speed, on the CPU or on the simulated GPU. Only the clock is a script: it says for each call
what it takes, because no test may depend on the real time. So a cheat that would be fast is refused
for its outputs alone, and a cheat that shows another time than the clock is judged by the clock.

The docstring of a cheat has this header:

    group:   one of GROUPS
    from:    the public cheats that it is written after, `; ` between them
    device:  cpu (default) or stand-in
    takes:   seconds of a call, 0.2 by default; the reference takes 1 and everything else 0.1.
             Several numbers are for successive calls.
    ends:    `refused`, `too slow`, `crashed`, or `passed` for right code and for what gains nothing
    says:    words of the message
    holds:   what must hold, in one sentence

`python -m tests.grader.test_cheats` prints the table of all cheats.
"""

import ast
import itertools
import random
import re
import sys
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import pytest

from grader.base.errors import Status
from grader.course import courses
from grader.grading.grade import grade
from grader.sandbox.box import Sandbox
from grader.submission.submissions import Submission
from kit import ratio, timed
from kit.speed import CALLS, CHECKED, MOST_WARM_UPS, NOT_THE_SAME, Speed, _Measurement
from tests.grader import small_courses
from tests.grader.processes import processes

CHEATS = Path(__file__).parent / "cheats"
GROUPS = (
    "right code", "skip the work", "replay an answer", "defer the work", "compute what is checked",
    "change the clock", "change the digest", "tell calls apart", "change the surroundings",
    "read a secret", "forge a reply",
)  # fmt: skip
KEYS = {"group", "from", "device", "takes", "ends", "says", "holds"}
# gpu-mode/pygpubench, folder exploits, at 87bb46d: the names of its files.
PYGPUBENCH = {
    "aes_key_recovery", "combined", "error_counter", "event_array", "fd_overwrite", "file_struct",
    "function_detour", "gc_copy", "gc_nan", "got_patch", "gpu_scan_zeros", "heap_sig_scan",
    "pipe_interpose", "proc_mem_bypass", "ptrace", "replace_torch", "seccomp_trap",
    "stack_sig_scan", "test_canary_direct", "test_canary_make_writeable", "thread_fd", "warmup",
    "correct", "wrong",
}  # fmt: skip
# ScalingIntelligence/KernelBench: src/kernelbench/unit_tests/test_kernels.
KERNELBENCH = {"result_reuse", "zero_out", "non_default_stream"}
# deep-reinforce.com, "Hacks and Defenses in Automatic GPU Kernel Generation".
DEEP_REINFORCE = {
    "stream injection", "thread injection", "lazy evaluation", "precision downgrade",
    "monkey-patched timing",
}  # fmt: skip
# Issues and changes of gpu-mode/reference-kernels, in which a cheat got points.
INCIDENTS = {
    "#102 caching by id", "#104 batch and skip", "#160 replay from a file",
    "#161 lazy output", "#162 aggregator underflow", "#162 patched timer",
    "171543b empty output", "e9984e4 fixed seed", "pygpubench#49 persistent cache",
}  # fmt: skip
KNOWN = {
    *(f"pygpubench {name}" for name in PYGPUBENCH),
    *(f"KernelBench {name}" for name in KERNELBENCH),
    *(f"deep-reinforce {name}" for name in DEEP_REINFORCE),
    *INCIDENTS,
}


@dataclass(frozen=True)
class Cheat:
    """One file of cheats/ and its header."""

    path: Path

    @cached_property
    def header(self) -> dict[str, str]:
        text = ast.get_docstring(ast.parse(self.path.read_text())) or ""
        return {
            key: " ".join(value.split())
            for key, value in re.findall(r"^(\w+): +(.+(?:\n +.+)*)", text, re.MULTILINE)
        }

    @property
    def problem(self) -> str:
        return "simulated" if self.header.get("device") == "stand-in" else "cpu"

    @property
    def takes(self) -> list[float]:
        return [float(word) for word in self.header.get("takes", "0.2").split()]

    @property
    def sources(self) -> list[str]:
        return self.header.get("from", "").split("; ") if "from" in self.header else []


ALL = [Cheat(path) for path in sorted(CHEATS.glob("*.py"))]


class Script:
    """A clock that says what each call takes, and turns with this clock.

    While the reference runs, its process must be the only one in the sandbox.
    """

    def __init__(self, takes: list[float], box: Sandbox) -> None:
        self._takes, self._now, self._box = itertools.cycle(takes), 0.0, box

    def speed(self, open_turn, **options) -> Speed:
        """The fixture with this clock."""

        def opened(side, function, is_repetition):
            turn = open_turn(side, function, is_repetition)
            turn.run = self._timed(turn.run, side)
            return turn

        seeded = random.Random(0)  # so that the same calls are checked in every run
        return Speed(
            opened,
            clock=lambda: self._now,
            chance=seeded,
            timed_on=("cpu", "stand-in"),
            **options,
        )

    def _timed(self, run, side):
        def timed_run(probe, **inputs):
            answer = run(probe, **inputs)
            if side == "reference":
                assert len(processes("PPid", self._box.host_pid)) == 1, "not alone"
            self._now += 0.1
            if probe is timed.timed:
                self._now += next(self._takes) if side == "student" else 1.0
            return answer

        return timed_run


@pytest.fixture(scope="module")
def course(tmp_path_factory):
    """A course with two tests of speed."""
    return courses.load(small_courses.with_products(tmp_path_factory.mktemp("products") / "course"))


@pytest.fixture(scope="module")
def box(course):
    """Its sandbox, which all cheats share."""
    with Sandbox.of(course, isolation="bubblewrap") as running:
        yield running


def graded(cheat, course, box, monkeypatch):
    """The result of the one test that a cheat meets."""
    monkeypatch.setattr("kit.fixtures.Speed", Script(cheat.takes, box).speed)
    # What decides is the same for any number of pairs; `test_ratio.py` is about the rule.
    monkeypatch.setattr(ratio, "LOOKS", ((1, 1),))
    submission = Submission(cheat.path.stem, {"assignment/work.py": cheat.path.read_bytes()}, [])
    problems = [course.problem(cheat.problem)]
    result = grade(submission, course, box, problems=problems, explain=False)
    [test] = result.problems[0].tests
    return test


@pytest.mark.parametrize("cheat", ALL, ids=[cheat.path.stem for cheat in ALL])
def test_its_header_is_complete(cheat):
    """Each header has the required keys and only known values."""
    assert cheat.header.keys() <= KEYS
    assert cheat.header["group"] in GROUPS
    assert cheat.header["ends"] in ("refused", "too slow", "crashed", "passed")
    assert cheat.header["holds"]
    assert ("takes" in cheat.header) == (cheat.header["ends"] in ("too slow", "passed"))
    assert set(cheat.sources) <= KNOWN
    assert ("says" in cheat.header) == (cheat.header["ends"] in ("refused", "crashed"))


def test_every_public_cheat_is_written_anew():
    """Each cheat and each control of the public collections has a file here."""
    assert KNOWN == {source for cheat in ALL for source in cheat.sources}


@pytest.mark.slow
@pytest.mark.xdist_group("cheats")
@pytest.mark.parametrize("cheat", ALL, ids=[cheat.path.stem for cheat in ALL])
def test_it_gains_nothing(cheat, course, box, monkeypatch):
    """A cheat is refused, or judged by the real time; right code passes."""
    test = graded(cheat, course, box, monkeypatch)
    said = f"{test.status}: {test.what} {[fact.text for fact in test.facts]}"
    says = cheat.header.get("says", "").replace("NOT_THE_SAME", NOT_THE_SAME)
    assert "BREACH" not in said
    expected = {
        "refused": (Status.FAILED, says),
        "too slow": (Status.FAILED, "too slow"),
        "crashed": (Status.CRASHED, says),
        "passed": (Status.PASSED, ""),
    }[cheat.header["ends"]]
    assert expected[0] == test.status, said
    assert any(words in test.what for words in expected[1].split(" | ")), said
    if test.status is Status.PASSED:
        assert "times the reference" in test.facts[0].text


def stopped_by_the_check(cheat):
    """Whether nothing but the check of outputs stands between a cheat and its points."""
    itself = ("lazy_list",)  # an error of its own ends it
    return cheat.header["ends"] == "refused" and cheat.path.stem not in itself


CHECKED_ALONE = [cheat for cheat in ALL if stopped_by_the_check(cheat)]


@pytest.mark.proof
@pytest.mark.slow
@pytest.mark.xdist_group("cheats")
@pytest.mark.parametrize("cheat", CHECKED_ALONE, ids=[c.path.stem for c in CHECKED_ALONE])
def test_it_would_succeed_without_the_check(cheat, course, box, monkeypatch):
    """If no output were fetched, each refused cheat would pass, so none is refused by chance."""
    monkeypatch.setattr(_Measurement, "check_answers", lambda self: True)
    monkeypatch.setattr(_Measurement, "_fetch", lambda *_: None)
    test = graded(cheat, course, box, monkeypatch)
    assert test.status is Status.PASSED, test.what
    assert test.facts[0].text.startswith("0.20 times the reference")


def test_enough_calls_are_checked():
    """Code that skips the work of most calls of a block is caught in nine blocks of ten."""
    needed = CALLS // 2 + 1  # calls that have to be fast for a fast median
    escapes = [
        not set(checked) & set(range(needed))
        for checked in itertools.combinations(range(CALLS), CHECKED)
    ]
    assert 0.1 >= sum(escapes) / len(escapes)
    assert MOST_WARM_UPS > 1  # so that calls before the clock cannot be counted


def table() -> str:
    """All cheats: what is tried, where it comes from, how it ends, and what holds."""
    lines = []
    for group in GROUPS:
        lines += [f"\n{group}"]
        for cheat in (cheat for cheat in ALL if cheat.header["group"] == group):
            header = cheat.header
            lines.append(f"  {cheat.path.stem:<34}{header['ends']:<10}{header.get('from', '')}")
    return "\n".join(lines)


if __name__ == "__main__":
    print(table())
    sys.exit(0)
