"""A test of speed in a grade: real processes, and a clock that a busy machine does not change."""

import functools
import json
import re

import pytest

from grader.base.errors import Status
from grader.course import courses
from grader.grading.grade import grade
from grader.grading.local_student import LocalBox, LocalSession
from grader.report import html_report, json_report, markdown_report, terminal
from grader.report.reported import Reported
from grader.sandbox.box import Sandbox
from grader.submission.submissions import Submission
from kit import ratio
from kit.speed import Speed
from tests.grader import small_courses

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("speed")]
MEASURED = r"\d\.\d\d times the reference \(.* in \d+ pairs\); required at most 1\.5"


@pytest.fixture(scope="module")
def course(tmp_path_factory):
    """A course in plain Python with one problem that is also judged by its time."""
    return courses.load(small_courses.with_speed(tmp_path_factory.mktemp("speed") / "course"))


@pytest.fixture(scope="module")
def reference(course):
    """Its solution."""
    return (course.reference / "sequences.py").read_text()


@pytest.fixture(scope="module")
def box(course):
    """Its sandbox."""
    with Sandbox.of(course, isolation="bubblewrap") as running:
        yield running


@pytest.fixture(autouse=True)
def opened(box, monkeypatch):
    """Count the CPU time of the box instead of real time; return the turns that were opened."""
    found, clock = [], CpuClock(box)

    def speed(open_turn, **options):
        def listed(side, function, is_repetition):
            found.append(side)
            turn = open_turn(side, function, is_repetition)
            if turn.is_timed:
                turn.run = clock.counted(turn.run)
            return turn

        return Speed(listed, clock=lambda: clock.now, **options)

    monkeypatch.setattr("kit.fixtures.Speed", speed)
    monkeypatch.setattr(ratio, "LOOKS", ((4, 1),))  # `test_ratio.py` is about the rule
    return found


class CpuClock:
    """A clock that advances by the CPU time of the calls in a sandbox, except the first of each."""

    def __init__(self, box):
        self._box, self.now = box, 0.0

    def counted(self, run):
        """The same function, whose CPU time is counted."""
        has_run = False

        def counted_run(probe, **inputs):
            nonlocal has_run
            before = self._used() if has_run else None
            answer = run(probe, **inputs)
            has_run = True
            if before is not None:
                self.now += self._used() - before
            return answer

        return counted_run

    def _used(self):
        return self._box.activity().nanoseconds / 1e9


def graded(source, course, box):
    """A result, and its test of speed."""
    submission = Submission("ada", {"assignment/sequences.py": source.encode()}, [])
    result = grade(submission, course, box, explain=isinstance(box, Sandbox))
    return result, next(t for t in result.problems[0].tests if t.id == "test_as_fast_as_ours")


def test_a_fast_solution_passes_and_every_report_says_what_was_measured(course, box, reference):
    """The ratio is a fact of the passed test."""
    result, test = graded(reference, course, box)
    assert test.status is Status.PASSED
    [fact] = test.facts
    assert re.match(MEASURED, fact.text)
    reported = Reported(result)
    for text in (terminal.render(reported), markdown_report.render(reported)):
        assert "times the reference" in text
    assert "times the reference" in html_report.render(reported)
    [told] = [
        fact["text"]
        for test in json.loads(json_report.render(reported))["problems"][0]["tests"]
        for fact in test["facts"]
    ]
    assert fact.text == told


def test_a_slow_solution_fails_and_is_measured_once(course, box, reference, opened):
    """It loses the points of the test of speed alone; a shared process brings no second try."""
    slow = reference.replace("def steps(", "def once(") + (
        "\n\ndef steps(numbers):\n    for _ in range(4):\n        counts = once(numbers)\n"
        "    return counts\n"
    )
    result, test = graded(slow, course, box)
    assert (Status.FAILED, "steps", "too slow") == (test.status, test.about, test.what)
    assert re.match(MEASURED, test.facts[0].text)
    assert float(test.facts[0].text.split()[0]) > 2
    assert 2 / 3 == pytest.approx(result.score)
    assert 2 + 16 <= len(opened) <= 3 + 16
    assert "too slow" in terminal.render(Reported(result))


@pytest.mark.parametrize(
    ("source", "status", "says"),
    [
        ("def steps(numbers):\n    raise NotImplementedError\n", Status.NOT_ATTEMPTED, "not att"),
        ("def steps(numbers):\n    return [0 for n in numbers]\n", Status.FAILED, "wrong value"),
        ("def steps(numbers):\n    return None\n", Status.FAILED, "returned None"),
        ("def steps(numbers):\n    return {1: numbers}\n", Status.FAILED, "cannot be timed"),
        ("def steps(numbers):\n    return 1 / 0\n", Status.FAILED, "raised ZeroDivisionError"),
        ("import os\ndef steps(numbers):\n    os._exit(3)\n", Status.CRASHED, ""),
        ("def steps(numbers):\n    return b'x' * 2**25\n", Status.CRASHED, "cannot be sent"),
    ],
)
def test_other_ends_are_those_of_any_test(course, box, source, status, says, opened):
    """A stub, a wrong output, an exception and a crash end the test before anything is timed."""
    _, test = graded(source, course, box)
    assert status is test.status
    assert says in test.what
    assert len(opened) <= 2


def test_a_reference_that_fails_is_our_fault(course, box, reference, tmp_path, monkeypatch):
    """Nobody loses a point."""
    broken = tmp_path / "reference"
    broken.mkdir()
    (broken / "sequences.py").write_text("def steps(numbers):\n    return 1 / 0\n")
    monkeypatch.setattr(type(course), "reference", broken)
    source = reference + "\ncalls = 0\n"
    monkeypatch.setattr("kit.speed._Measurement.check_answers", lambda self: True)
    _, test = graded(source, course, box)
    assert test.status is Status.GRADER_ERROR
    assert "the reference of a test of speed failed" in test.what


def test_in_one_process_only_outputs_are_checked(course, reference, opened):
    """`grader validate` tries most wrong solutions without a sandbox, where times mean nothing."""
    box = LocalBox()
    try:
        grading = functools.partial(grade, session=LocalSession)
        for source, status in [
            (reference, Status.PASSED),
            (reference.replace("count = 0", "count = 1"), Status.FAILED),
        ]:
            submission = Submission("ada", {"assignment/sequences.py": source.encode()}, [])
            result = grading(submission, course, box, explain=False)
            test = result.problems[0].tests[-1]
            assert (status, []) == (test.status, [f for f in test.facts if f.label == "measured"])
    finally:
        box.close()
    assert ["student", "reference"] * 2 == opened
