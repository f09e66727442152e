"""Read a class's results once, and count what a teacher wants to know after a deadline."""

import random
import statistics
from dataclasses import dataclass, field
from typing import NamedTuple

from grader.analysis import item_analysis, open_task
from grader.analysis.item_analysis import Advance, Try
from grader.base.errors import Status
from grader.classroom.class_records import Standing, State, called
from grader.classroom.standings import Class
from grader.course.courses import Problem
from grader.report.shared_wording import clean
from grader.results.result_records import ProblemResult, SubmissionResult

# A test with one of these statuses was not attempted, or did not run.
NOT_TRIED = (Status.NOT_ATTEMPTED, Status.DEFERRED, Status.GRADER_ERROR)
ENDED = (Status.CRASHED, Status.TIMEOUT, Status.MEMORY, Status.POLICY)
MAX_TEXT = 200  # characters of a failure that is not a known mistake
# Without names, a failure is shown only if at least this many students have it.
FEWEST_ALIKE = 3


@dataclass(frozen=True)
class Member:
    standing: Standing  # the student's standing
    name: str  # the name to show; a number if names are left out
    # How long grading took for the attempt that counts; None if it has no result.
    seconds: float | None
    # For each problem, the share of its points, from 0 to 1; None if not begun or without points.
    shares: list[float | None]
    failed: list[int]  # the numbers of the tests that failed, in `Survey.tests`
    # The problems whose tests crashed, exceeded a limit or broke a policy, each with the status.
    ended: dict[str, Status]
    tries: list[Try]  # the graded attempts in the order of their times, if there are several

    @property
    def hours_before(self) -> float | None:
        """Hours from the attempt that counts to its deadline; negative if it is late."""
        one = self.standing
        if one.deadline is None or one.submitted_at is None:
            return None
        return (one.deadline - one.submitted_at).total_seconds() / 3600


@dataclass(frozen=True)
class Item:
    id: str  # the name
    problem: int  # the number of its problem, in `Survey.problems`
    tried: int  # how many students attempted it
    difficulty: float | None  # the share of these students who passed; None if nobody attempted it
    discrimination: float | None  # see `item_analysis.discrimination`
    remark: str  # see `item_analysis.remark`

    @property
    def is_suspicious(self) -> bool:
        """Whether the test itself may be wrong."""
        return self.remark in item_analysis.SUSPICIOUS


@dataclass(frozen=True)
class CommonMistake:
    """Something that students got wrong in the same way."""

    problem: int  # the number of the problem, in `Survey.problems`
    # The known mistake, or the failures of students whose answers to all failed tests are equal.
    text: str
    is_known: bool  # whether it is a known mistake of the course
    tests: int  # how many tests fail, if it is not a known mistake
    students: list[int]  # the numbers of the students, in `Survey.members`
    points: float  # the points that it cost all of them together


@dataclass(frozen=True)
class Topic:
    """One problem of the course, with the class's results."""

    id: str
    section: str  # its section of the handout
    link: str  # the address of that section; empty if it has none
    points: float  # the points that it is worth
    begun: int  # how many students began it
    full: int  # how many students have all its points
    # The mean share of its points, over the students who began it; None if nobody did.
    share: float | None
    advance: Advance | None  # what several attempts at it show; None if no student has several


@dataclass(frozen=True)
class Group:
    name: str  # the section; empty if students have none
    members: int  # how many students it has
    points: list[float]  # the points of the students who have a grade
    late: int  # how many students are late
    missing: int  # how many students handed in nothing
    shares: list[float | None]

    @property
    def spread(self) -> "Spread | None":
        return Spread.of(self.points)


@dataclass(frozen=True)
class Spread:
    """How points are distributed: their mean, quartiles and standard deviation.

    The quartiles are those of a population, by linear interpolation: the median is the second one.
    """

    count: int  # how many values there are
    mean: float  # their mean
    lower: float  # the first quartile: a quarter of the values are at most this
    median: float  # the second quartile
    upper: float  # the third quartile
    deviation: float  # the standard deviation

    @classmethod
    def of(cls, points: list[float]) -> "Spread | None":
        if not points:
            return None
        both = points if len(points) > 1 else points * 2  # quantiles need two values
        lower, median, upper = statistics.quantiles(both, n=4, method="inclusive")
        mean, deviation = statistics.fmean(points), statistics.pstdev(points)
        return cls(len(points), mean, lower, median, upper, deviation)


@dataclass(frozen=True)
class Survey:
    max_score: float  # the points that the assignment can give
    members: list[Member]  # the students
    problems: list[Topic]  # the problems in the order of the course
    tests: list[Item]  # the hidden tests that count in some result
    mistakes: list[CommonMistake]  # what went wrong, the most common mistake first
    groups: list[Group]  # the sections; a single nameless one if the class has no sections
    race: list[open_task.RaceRow]  # the entries of the open task, the best one first

    @property
    def points(self) -> list[float]:
        """The points of all students who have a grade."""
        return [m.standing.points for m in self.members if m.standing.points is not None]

    @property
    def suspicious(self) -> list[int]:
        """The numbers of the tests that may themselves be wrong, the worst first."""
        found = [(number, item) for number, item in enumerate(self.tests) if item.is_suspicious]
        worst = [
            (item_analysis.SUSPICIOUS.index(i.remark), i.discrimination or 0.0, n) for n, i in found
        ]
        return [number for *_, number in sorted(worst)]

    @property
    def judged(self) -> int:
        """How many tests were attempted by enough students for a remark."""
        return sum(item.tried >= item_analysis.FEWEST for item in self.tests)

    @property
    def verdict(self) -> str:
        """What the class shows about its tests, if none of them is suspicious."""
        if not self.tests:
            return "no test can be judged: nobody attempted one"
        if not self.judged:
            return (
                f"no test can be judged: fewer than {item_analysis.FEWEST} students attempted each"
            )
        if self.judged == len(self.tests):
            return "no test is suspicious"
        return (
            f"no test is suspicious; only {self.judged} of {len(self.tests)} can be judged, "
            f"because fewer than {item_analysis.FEWEST} students attempted the others"
        )


def survey(whole: Class, *, names: bool = True) -> Survey:
    """Read the results that count; without names, in random order and without rare failures."""
    standings = whole.standings()
    if not names:
        random.SystemRandom().shuffle(standings)
    reading = _Reading(whole)
    members = [reading.member(one, number, names) for number, one in enumerate(standings)]
    handed_in = members if whole.course.accepted.has(open_task.PATH) else []
    race = [(m.name if names else "", open_task.read(whole.sources(m.standing))) for m in handed_in]
    return Survey(
        max_score=whole.max_score,
        members=members,
        problems=[_topic(whole, p, at, members) for at, p in enumerate(reading.problems)],
        tests=reading.items(),
        mistakes=reading.mistakes(fewest=1 if names else FEWEST_ALIKE),
        groups=_groups(members, len(reading.problems)),
        race=open_task.table([(name, entry) for name, entry in race if entry]),
    )


class FailedTest(NamedTuple):
    """How one test failed. The tests of a class have the same inputs, so facts can be compared."""

    test: str
    said: str
    facts: tuple[tuple[str, str], ...]


class Alike(NamedTuple):
    """What failures of a problem have in common: a known mistake, or equal answers to its tests."""

    problem: str
    mistake: str
    answers: tuple[FailedTest, ...]


def costs(problem: ProblemResult) -> dict[Alike, float]:
    """The points that each known mistake cost, and those that all unexplained failures cost."""
    found: dict[Alike, float] = {}
    failed = [t for t in problem.tests if t.status not in (*NOT_TRIED, Status.PASSED)]
    answers = tuple(
        FailedTest(
            test.id,
            test.said,
            # Where in a student's code it failed says nothing about the answer.
            tuple((fact.label, fact.text) for fact in test.facts if fact.label != "at"),
        )
        for test in failed
        if not test.mistake
    )
    for test in failed:
        alike = Alike(problem.id, test.mistake, () if test.mistake else answers)
        found[alike] = found.get(alike, 0.0) + test.max_score
    return found


@dataclass
class _TestData:
    number: int
    passed: list[bool] = field(default_factory=list)
    rest: list[float] = field(default_factory=list)


class _Reading:
    """Reads one result after the other, and accumulates counts of tests and mistakes."""

    def __init__(self, whole: Class) -> None:
        self._whole = whole
        counting = whole.book.results.counting()
        graded = {p for setup in counting for p in whole.book.setups.get(setup).problems}
        self.problems = [p for p in whole.course.problems if p.id in graded]
        self._place = {problem.id: at for at, problem in enumerate(self.problems)}
        self._trials: dict[tuple[int, str], _TestData] = {}
        self._mistakes: dict[Alike, dict[int, float]] = {}

    def member(self, standing: Standing, number: int, names: bool) -> Member:
        result = self._whole.result(standing) if standing.state is State.GRADED else None
        found = {p.id: p for p in result.problems} if result else {}
        mine = [found.get(problem.id) for problem in self.problems]
        failed = self._read(result, number) if result else []
        return Member(
            standing=standing,
            name=called(standing.student) if names else f"student {number + 1}",
            seconds=result.seconds if result else None,
            shares=[_share(problem) for problem in mine],
            failed=failed,
            ended={p.id: p.status for p in mine if p and p.status in ENDED},
            tries=self._tries(standing),
        )

    def _tries(self, standing: Standing) -> list[Try]:
        """A student's graded attempts; empty if the student has fewer than two attempts."""
        if standing.attempts < 2:
            return []
        sources = [one.sources for one in self._whole.book.attempts.all(standing.student.id)]
        counting = self._whole.book.results.counting()
        found = [self._whole.book.results.first_result(one, counting) for one in sources]
        return [_try(result) for result in found if result]

    def _read(self, result: SubmissionResult, number: int) -> list[int]:
        """Count the tests of one result; return the numbers of those that failed."""
        failed = []
        for problem in result.problems:
            if problem.id not in self._place:
                continue
            at = self._place[problem.id]
            for test in problem.tests:
                if test.status in NOT_TRIED:
                    continue
                trial = self._trials.setdefault((at, test.id), _TestData(len(self._trials)))
                trial.passed.append(test.status is Status.PASSED)
                trial.rest.append(result.score - test.score)
                if test.status is not Status.PASSED:
                    failed.append(trial.number)
            for alike, cost in costs(problem).items():
                self._mistakes.setdefault(alike, {})[number] = cost
        return failed

    def items(self) -> list[Item]:
        return [_item(at, name, trial) for (at, name), trial in self._trials.items()]

    def mistakes(self, *, fewest: int) -> list[CommonMistake]:
        """The mistakes, the most common first; unknown ones only if `fewest` or more have them."""
        found = [
            CommonMistake(
                problem=self._place[alike.problem],
                text=clean(alike.mistake or alike.answers[0].said, MAX_TEXT),
                is_known=bool(alike.mistake),
                tests=len(alike.answers),
                students=list(cost),
                points=sum(cost.values()),
            )
            for alike, cost in self._mistakes.items()
            if alike.mistake or len(cost) >= fewest
        ]
        return sorted(found, key=lambda one: (-len(one.students), -one.points, one.text))


def _try(result: SubmissionResult) -> Try:
    shares = {p.id: share for p in result.problems if (share := _share(p)) is not None}
    return Try(
        shares=shares,
        failed={
            p.id: [
                test.id
                for test in p.tests
                if test.status not in NOT_TRIED and test.status is not Status.PASSED
            ]
            for p in result.problems
        },
    )


def _share(problem: ProblemResult | None) -> float | None:
    """A problem's score as a share of the points that this device's tests can give."""
    if problem is None or all(test.status in NOT_TRIED for test in problem.tests):
        return None
    possible = problem.max_score - problem.pending
    return problem.score / possible if possible > 1e-9 else None


def _item(at: int, name: str, trial: _TestData) -> Item:
    found = item_analysis.discrimination(trial.passed, trial.rest)
    return Item(
        id=clean(name, 150),
        problem=at,
        tried=len(trial.passed),
        difficulty=item_analysis.difficulty(trial.passed),
        discrimination=found,
        remark=item_analysis.remark(trial.passed, found),
    )


def _topic(whole: Class, problem: Problem, at: int, members: list[Member]) -> Topic:
    shares = [share for m in members if (share := m.shares[at]) is not None]
    return Topic(
        id=problem.id,
        section=problem.section,
        link=whole.handout_links.get(problem.id, ""),
        points=problem.points,
        begun=len(shares),
        full=sum(share > 1 - 1e-9 for share in shares),
        share=statistics.fmean(shares) if shares else None,
        advance=item_analysis.advance(problem.id, [m.tries for m in members]),
    )


def _groups(members: list[Member], problems: int) -> list[Group]:
    names = sorted({m.standing.student.section for m in members})
    return [
        _group(name, [m for m in members if m.standing.student.section == name], problems)
        for name in names
    ]


def _group(name: str, members: list[Member], problems: int) -> Group:
    begun = [[s for m in members if (s := m.shares[at]) is not None] for at in range(problems)]
    return Group(
        name=clean(name, 50),
        members=len(members),
        points=[m.standing.points for m in members if m.standing.points is not None],
        late=sum(m.standing.days_late > 0 for m in members),
        missing=sum(m.standing.state is State.MISSING for m in members),
        shares=[statistics.fmean(shares) if shares else None for shares in begun],
    )
