"""Which attempt counts, what lateness costs, and which points staff set by hand."""

from datetime import UTC, datetime, timedelta

import pytest

from grader.base.errors import Status
from grader.classroom import gradebook
from grader.classroom.records import State, Student
from grader.classroom.standings import counts, standings
from grader.course.policies import Policy
from tests.grader.classroom.test_gradebook import SETUP, of, result_of

DUE = datetime(2026, 10, 2, 12, tzinfo=UTC)
HOUR, DAY = timedelta(hours=1), timedelta(days=1)
RULES = Policy(per_cent_a_day=10, grace_minutes=15, cap=25, deadlines={"default": DUE})


@pytest.fixture
def book(tmp_path):
    """A gradebook with one student, in which results of SETUP count."""
    with gradebook.writing(tmp_path / "class.sqlite", create=True) as opened:
        opened.students.enrol([Student(id="ada")])
        opened.setups.apply(opened.setups.number_of(SETUP), why="batch")
        yield opened


def hand_in(book, name, at, status=Status.PASSED):
    """Add an attempt of Ada's, which earns 6 points if it passes and none otherwise."""
    book.attempts.add("ada", name, of(name), submitted_at=at)
    if status:
        book.results.keep(book.setups.current("cpu"), result_of(of(name), status))


def ada(book, rules=RULES):
    (standing,) = standings(book, rules, 6.0)
    return standing


@pytest.mark.parametrize(
    ("after", "points"),
    [
        (-HOUR, 6.0),
        (timedelta(minutes=15), 6.0),  # in the grace
        (timedelta(minutes=16), 5.4),
        (DAY, 5.4),
        (DAY + HOUR, 4.8),
        (30 * DAY, 4.5),  # capped
    ],
    ids=range(6),
)
def test_each_day_that_begins_costs_ten_per_cent_up_to_the_cap(book, after, points):
    hand_in(book, "one", DUE + after)
    assert ada(book).points == pytest.approx(points)


@pytest.mark.parametrize(
    ("days", "why"), [(59, ""), (365, "it is 365 days late: is its time right?")]
)
def test_a_wrong_year_is_asked_about(book, days, why):
    hand_in(book, "one", DUE + days * DAY)
    assert ada(book).why == why


def test_an_attempt_without_a_time_beside_one_with_a_time_is_told(book):
    """It may be the newer one; where the best attempt counts, that makes no difference."""
    hand_in(book, "dated", DUE)
    hand_in(book, "undated", None)
    assert ada(book).why == "an attempt without a time counts as earlier than this one"
    assert ada(book, Policy(counts="best")).why == ""


def test_late_days_and_extensions_move_the_deadline(book):
    """An extension replaces the deadline, unless it is earlier than the deadline."""
    hand_in(book, "one", DUE + 2 * DAY)
    assert ada(book).days_late == 2
    assert ada(book, Policy(late_days=2, per_cent_a_day=10, deadlines={"default": DUE})).points == 6
    book.decisions.extend("ada", DUE - DAY, reason="typo")
    assert ada(book).days_late == 2
    book.decisions.extend("ada", DUE + DAY, reason="ill")
    assert (ada(book).days_late, ada(book).deadline) == (1, DUE + DAY)


def test_a_section_has_its_own_deadline(book):
    """Sections without a deadline in the policy have the default one."""
    hand_in(book, "one", DUE + HOUR)
    rules = Policy(per_cent_a_day=10, deadlines={"default": DUE, "B": DUE + DAY})
    assert ada(book, rules).days_late == 1
    book.students.enrol([Student(id="ada", section="B")])
    assert ada(book, rules).days_late == 0


def test_the_latest_attempt_before_the_deadline_counts(book):
    """If there is none, the first attempt after it counts, because it has the lowest penalty."""
    hand_in(book, "late", DUE + DAY + HOUR)
    hand_in(book, "later", DUE + 2 * DAY)
    assert (ada(book).attempt, ada(book).attempts) == (1, 2)
    hand_in(book, "good", DUE - 2 * HOUR)
    hand_in(book, "worse", DUE - HOUR, Status.FAILED)
    assert (ada(book).attempt, ada(book).points) == (2, 0.0)


def test_the_best_attempt_counts_where_the_course_says_so(book):
    """Penalties are included, and an attempt without a grade might still be the best."""
    rules = Policy(counts="best", per_cent_a_day=10, deadlines={"default": DUE})
    hand_in(book, "bad", DUE - HOUR, Status.FAILED)
    hand_in(book, "good", DUE + HOUR)
    assert ada(book, rules).points == pytest.approx(5.4)
    hand_in(book, "new", DUE + 2 * HOUR, None)
    assert ada(book, rules).state is State.NOT_GRADED


def test_what_has_no_grade_says_why_and_has_no_points(book):
    """Missing points are not zero points: a person or another run still decides."""
    assert (ada(book).state, ada(book).points) == (State.MISSING, None)
    hand_in(book, "one", DUE - 3 * HOUR, None)
    assert (ada(book).state, ada(book).points) == (State.NOT_GRADED, None)
    book.results.note_fault(book.setups.current("cpu"), of("one").sha256, "killed")
    assert (ada(book).state, ada(book).why) == (State.GRADER_ERROR, "killed")
    book.attempts.add("ada", "two.zip", "it is no zip", submitted_at=DUE - HOUR)
    found = (ada(book).state, ada(book).points, ada(book).why)
    assert found == (State.REFUSED, None, "it is no zip")
    assert counts([ada(book)])[State.REFUSED] == 1


def test_points_by_hand_change_the_points_and_never_what_was_found(book):
    """An override of a problem is still subject to the late penalty; one of the total is final."""
    hand_in(book, "one", DUE + HOUR, Status.FAILED)
    book.decisions.override("ada", 5, problem="linear", reason="fair")
    assert (ada(book).points, ada(book).score, ada(book).problems) == (4.5, 0.0, {"linear": 0.0})
    book.decisions.override("ada", 6, reason="agreed")
    assert (ada(book).points, ada(book).score) == (6, 0.0)
    book.decisions.override("ada", None, reason="not agreed")
    assert (ada(book).points, len(book.decisions.history("ada"))) == (4.5, 3)


def test_points_for_a_problem_alone_are_no_grade(book):
    """The other problems still wait for a result, but an override of the total needs none."""
    hand_in(book, "one", DUE - HOUR, None)
    book.decisions.override("ada", 5, problem="linear", reason="fair")
    assert (ada(book).state, ada(book).points) == (State.NOT_GRADED, None)
    book.decisions.override("ada", 5, reason="fair")
    assert (ada(book).state, ada(book).points) == (State.GRADED, 5)
