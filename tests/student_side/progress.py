"""What a run of the public tests found out: a row a problem, the failures, and what to do next."""

from collections import Counter
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Progress:
    """How far one problem is.

    Attributes:
        problem: Its entry in problems.toml.
        tests: How many public tests it has.
        ended: How those that have run ended: "passed", "not attempted" or "failed".
        forbidden: Whether its code uses what it asks for, so that it would earn nothing.
    """

    problem: dict[str, Any]
    tests: int = 0
    ended: list[str] = field(default_factory=list)
    forbidden: bool = False

    @property
    def passed(self) -> int:
        """How many tests pass."""
        return self.ended.count("passed")

    @property
    def status(self) -> str:
        """One word for it; empty while nothing is known."""
        ended = Counter(self.ended)
        if self.forbidden:
            return "forbidden use"
        if ended["failed"]:
            return "failing"
        if ended["not attempted"]:
            return "to be finished" if ended["passed"] else "not attempted"
        return "done" if 0 < self.tests == ended["passed"] else ""


@dataclass
class Failure:
    """What a student is to look at: a text in the form of `expect.render`, the place in their code, the test if it was one."""

    problem: dict[str, Any]
    attempted: bool
    text: str
    place: str
    test: str

    def __str__(self) -> str:
        return f"{self.text}\n  test      {self.test}" if self.test else self.text


@dataclass
class Outcome:
    """All of a run.

    Attributes:
        rows: The problems, in the order of the handout.
        failures: What does not pass, in the order of the tests.
        stopped: Where it was stopped by hand, as in "stopped at assignment/linear.py:40"; empty where it ran to its end.
        notes: What else the student should know, a sentence each.
    """

    rows: list[Progress]
    failures: list[Failure]
    stopped: str = ""
    notes: list[str] = field(default_factory=list)

    @property
    def done(self) -> str:
        """How many problems are done, as in "3 of 18 problems done"."""
        return f"{sum(row.status == 'done' for row in self.rows)} of {len(self.rows)} problems done"

    @property
    def passed(self) -> str:
        """How many tests pass, as in "37 of 150 public tests pass"."""
        return f"{sum(row.passed for row in self.rows)} of {sum(row.tests for row in self.rows)} public tests pass"

    @property
    def first_failure(self) -> Failure | None:
        """The first wrong answer; what was not attempted is none."""
        return next((failure for failure in self.failures if failure.attempted), None)

    @property
    def next_step(self) -> str:
        """What to do now."""
        if not self.failures:
            return "`python -m assignment submit` makes the zip to hand in; hidden tests decide the points"
        to_do = self.first_failure or self.failures[0]
        problem = to_do.problem
        verb = "mend" if to_do.attempted else "write"
        place = to_do.place or f"assignment/{problem['module']}.py"
        return (
            f"{verb} {place}\nread handout §{problem['section']}, then run `pytest -k {problem['id']}` (all of its failures)"
            f"\nor `python -m assignment check {problem['id']}`"
        )
