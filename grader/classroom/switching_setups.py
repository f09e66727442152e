"""From one setup to another: which results count meanwhile, and which commands to run.

The old results count until each student who has a grade would also have one from the new setup.
Then the new ones count for all students at once, because grades of two setups cannot be compared.
Until then nothing is lost if the command is refused, interrupted or killed; afterwards,
`grader regrade --undo` makes the old results count again.
"""

import shlex
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from grader.base.errors import Status, UsageError
from grader.classroom import setups
from grader.classroom.class_records import Standing, State
from grader.classroom.gradebook import Gradebook
from grader.classroom.setups import Setup
from grader.classroom.standings import Class
from grader.course.courses import Course
from grader.report.result_difference import changed_tests

# The options of a command that sets a field of the setup, and the fields that no option sets.
CHOSEN = ("seed", "isolation", "problems")


class Switch:
    """The change of a gradebook's setup to `today`, the one that a command asks for."""

    def __init__(self, book: Gradebook, today: Setup, course: Course, folder: Path | None) -> None:
        self.book, self.today, self._course, self._folder = book, today, course, folder
        counting = book.setups.in_force()
        number = counting.get(today.device)
        self.old = None if number is None else book.setups.get(number)
        others = [setup for device, setup in counting.items() if device != today.device]
        self._other = book.setups.get(others[0]) if others else None

    @property
    def is_needed(self) -> bool:
        """Whether another setup counts for this device, or none."""
        return self.old != self.today

    @property
    def is_same(self) -> bool:
        """Whether what counts was graded so, at least the last part of it."""
        return self.old is not None and self.old.of_all == self.today

    @property
    def number(self) -> int:
        """The number of the setup to which `batch` adds results."""
        current = self.book.setups.current(self.today.device)
        return current if current and self.is_same else self.book.setups.number_of(self.today)

    @property
    def _fits_other(self) -> bool:
        return self._other is None or setups.belong_together(self.today, self._other)

    def require_none(self) -> None:
        """Check that `batch` can add results of this setup, or that nothing has been graded yet."""
        old, other = self.old, self._other
        if old is not None and not self.is_same and self.book.results.has_grades:
            commands = " and then ".join(f"`{command}`" for command in self._commands())
            raise UsageError(
                f"{self.book.path} was graded with another setup ({self._changed(old)}). To grade "
                f"all submissions with this one, run {commands}: the old results count until it "
                f"ends, and `{self.undo_command}` makes them count again; without --apply, it only "
                "shows what would change"
            )
        if self.is_needed and other is not None and not self._fits_other:
            wanted = self._command(self._like_today(other), other, apply=True)
            raise UsageError(
                f"{self.book.path} has a run on the other device of another setup "
                f"({self._changed(other)}), and both have to be of one suite and seed: first run "
                f"`{wanted}`, then this command again; the old results count until both have ended"
            )

    def require_partner(self) -> None:
        """Check that the other device has results that can count together with new ones."""
        if self._setups_with(0) is None:
            assert self._other is not None
            first, then = self._commands()
            raise UsageError(
                f"{self.book.path} also has a run on the other device, of another setup "
                f"({self._changed(self._other)}), and both have to be of one suite and seed: "
                f"first run `{first}`, then `{then}`; until then the old results count"
            )

    def counting_with(self, number: int) -> list[int] | None:
        """The setups that would count with the new one, merged; None without a partner."""
        new = self._setups_with(number)
        if new is None:
            return None
        self.book.results.merge_devices(new)
        return self.book.results.counting(new)

    def apply(self, number: int, *, why: str) -> None:
        """Make the results of the new setup count, with those of the other device."""
        new = self._setups_with(number)
        assert new is not None
        changed = {d: setup for d, setup in new.items() if self.book.setups.current(d) != setup}
        first = {self.today.device: number}
        self.book.setups.apply(*(first | changed).values(), why=why)

    def _setups_with(self, number: int) -> dict[str, int] | None:
        if self._fits_other:
            return self.book.setups.in_force() | {self.today.device: number}
        partner = self.book.setups.partner_of(self.today)
        if partner is None:
            return None
        return {self.book.setups.get(partner).device: partner, self.today.device: number}

    @property
    def undo_command(self) -> str:
        """The command that makes the results count that counted before this change."""
        return " ".join([*self._start(), "--undo"])

    def command_back_to(self, undone: Setup) -> str:
        """The command that makes undone results count again; empty if there is none."""
        same = {name: getattr(undone, name) for name in (*CHOSEN, "device")}
        if msgspec.structs.replace(self.today, **same) != undone:
            return ""
        return self._command(
            undone, self.book.setups.get(self.book.setups.in_force()[undone.device]), apply=True
        )

    @property
    def nothing_to_do(self) -> str:
        """What counts already, and the options that choose something else."""
        now, every = self.today, [problem.id for problem in self._course.problems]
        more = "" if now.problems == every else ", --all-problems for all problems"
        listed = "all problems" if now.problems == every else f"only {', '.join(now.problems)}"
        return (
            "nothing to regrade: suite, grader and torch are unchanged, and so are the options "
            f"({listed}, --isolation {now.isolation}, --seed {now.seed}); give another --seed, "
            f"--isolation or --only{more} to see what it would change"
        )

    def _changed(self, old: Setup) -> str:
        like = msgspec.structs.replace(old, device=self.today.device)
        if old.device != self.today.device:  # of another device, only these have to be equal
            same = {name: getattr(old, name) for name in setups.SHARED}
            like = msgspec.structs.replace(self.today, **same)
        return "; ".join(setups.differences(like, self.today))

    def _like_today(self, other: Setup) -> Setup:
        """The setup of a run on the other device that belongs together with today's."""
        shared = {name: getattr(self.today, name) for name in setups.SHARED}
        return msgspec.structs.replace(other, **shared)

    def _commands(self) -> list[str]:
        found = []
        if self._other is not None and self._setups_with(0) is None:
            found.append(self._command(self._like_today(self._other), self._other, apply=False))
        return [*found, self._command(self.today, self.old, apply=True)]

    def _command(self, wanted: Setup, old: Setup | None, *, apply: bool) -> str:
        device = ["--device", wanted.device] if wanted.device != "cpu" else []
        options = self._options(wanted, old) if old else ""
        more = [*device, *filter(None, [options]), *["--apply"] * apply]
        return " ".join([*self._start(), *more])

    def _start(self) -> list[str]:
        folder = [] if self._folder is None else ["--course", str(self._folder)]
        return [shlex.join(["grader", "regrade", str(self.book.path), *folder])]

    def _options(self, wanted: Setup, old: Setup) -> str:
        """The options that lead from one setup to another, as far as options choose it."""
        words = []
        if wanted.seed != old.seed:
            words += ["--seed", str(wanted.seed)]
        if wanted.isolation != old.isolation or wanted.isolation == "none":  # only by its name
            words += ["--isolation", wanted.isolation]
        if wanted.problems != old.problems:
            every = [problem.id for problem in self._course.problems]
            only = [word for name in wanted.problems for word in ("--only", name)]
            words += ["--all-problems"] if wanted.problems == every else only
        return shlex.join(words)


def losing(whole: Class, counting: Sequence[int]) -> list[Standing]:
    """The students who have a grade now, and would have none if these setups counted."""
    now = whole.standings()
    then = whole.standings(setups=counting)
    return [
        after
        for before, after in zip(now, then, strict=True)
        if before.state is State.GRADED and after.state is not State.GRADED
    ]


SMALL = 0.005  # points; smaller differences are not shown anywhere


@dataclass(frozen=True)
class GradeChange:
    before: Standing  # the standing that counts
    after: Standing  # the standing with the new results
    tests: list[str]  # the tests whose outcome changes, as "problem, test: was, now is"

    @property
    def points(self) -> float:
        return (self.after.points or 0.0) - (self.before.points or 0.0)


@dataclass(frozen=True)
class Comparison:
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
        changed = changed_tests(*results)
        tests = [test for test in changed if Status.PASSED in (test.before, test.after)]
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
