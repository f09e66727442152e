"""What a regrade would change: who gains or loses points, and on which tests."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from grader.classroom.records import Standing, State
from grader.classroom.standings import Class
from grader.report.difference import changed_tests

SMALL = 0.005  # points; smaller differences are not shown anywhere


@dataclass(frozen=True)
class GradeChange:
    """One student whose points would change."""

    before: Standing  # the standing that counts
    after: Standing  # the standing with the new results
    tests: list[str]  # the tests whose outcome changes, as "problem, test: was, now is"

    @property
    def points(self) -> float:
        """The difference in points."""
        return (self.after.points or 0.0) - (self.before.points or 0.0)


@dataclass(frozen=True)
class Comparison:
    """All changes of a regrade."""

    changes: list[GradeChange]  # the students whose points or state would change
    tests: "Counter[tuple[str, str]]"  # how many students gain (or lose) points on each test
    before: float  # the sum of the points that count
    after: float  # the sum of the points with the new results
    students: int  # how many students were compared
    left: int  # how many students have no new result yet; all other numbers leave them out


def compare(whole: Class, old: Sequence[int], new: Sequence[int]) -> Comparison:
    """Compare a class's standings under the results of old setups and of new setups."""
    was, now = whole.standings(setups=old), whole.standings(setups=new)
    book = whole.book
    changes = []
    counted: Counter[tuple[str, str]] = Counter()
    pairs = list(zip(was, now, strict=True))
    compared = [
        (before, after)
        for before, after in pairs
        if after.state is not State.NOT_GRADED or before.state is State.NOT_GRADED
    ]
    for before, after in compared:
        moved = abs((after.points or 0.0) - (before.points or 0.0)) >= SMALL
        if not moved and before.state is after.state:
            continue
        results = (
            book.results.first_result(before.sources, old),
            book.results.first_result(after.sources, new),
        )
        tests = [test for test in changed_tests(*results) if test.gains_or_loses]
        counted.update((test.name, "gain" if test.passes else "lose") for test in tests)
        changes.append(GradeChange(before, after, [test.text for test in tests]))
    return Comparison(
        changes=sorted(changes, key=lambda change: change.points),
        tests=counted,
        before=sum(before.points or 0.0 for before, _ in compared),
        after=sum(after.points or 0.0 for _, after in compared),
        students=len(compared),
        left=len(pairs) - len(compared),
    )
