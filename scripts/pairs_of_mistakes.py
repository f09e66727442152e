"""Measure how reports tell two known mistakes at once, on a sample of pairs within one problem.

A mistake is told by name if a test says so, and by hint if a failed test has a hint that only the
code with this one mistake gets. A name is false if neither of the two mistakes alone gets it.
"""

import argparse
import itertools
import random
from collections.abc import Iterator
from contextlib import suppress
from functools import cache

from grader.base.errors import CourseFault, Status
from grader.course import courses
from grader.grading.grade import grade, import_libraries
from grader.grading.local_student import LocalBox, LocalSession
from grader.results.records import TestResult
from grader.solutions import mistakes
from grader.solutions.mistakes import Mistake
from grader.submission.submissions import Submission

COURSE, BOX = courses.load(), LocalBox()


def pairs_of(problem: str, rng: random.Random) -> Iterator[tuple[Mistake, Mistake, str]]:
    """Every pair of a problem's mistakes that change different lines, shuffled, with its source."""
    known = [m for m in mistakes.load(COURSE.hidden, problem) if m.is_tried_on("cpu", ("cpu",))]
    pairs = list(itertools.combinations(known, 2))
    rng.shuffle(pairs)
    for pair in pairs:
        with suppress(CourseFault):
            yield *pair, mistakes.both(*pair, COURSE.reference_of(COURSE.problem(problem)))


@cache
def failed(problem: str, source: str, explain: bool) -> list[TestResult]:
    """The tests that a module fails, with names of mistakes or without."""
    one, sources = COURSE.problem(problem), courses.sources_in(COURSE.reference)
    given = Submission("pair", sources | {one.path: source.encode()}, [])
    done = grade(given, COURSE, BOX, problems=[one], session=LocalSession, explain=explain)
    tests = done.problems[0].tests
    return [t for t in tests if t.device == "cpu" and t.status is not Status.PASSED]


def names_in(tests: list[TestResult]) -> list[set[str]]:
    """The names that tests show; a set has the alternatives of one."""
    named = [one for test in tests if test.mistake for one in test.mistake.split(" And: ")]
    return [set(one.split(" Or: ")) for one in named]


def told(first: Mistake, second: Mistake, source: str) -> tuple[list[str], list[str]]:
    """How each of the two is told, and the false names."""
    problem = first.problem
    alone = [m.applied_to(COURSE.reference_of(COURSE.problem(problem))) for m in (first, second)]
    names, how = names_in(failed(problem, source, True)), []
    for mistake, mine, other in zip((first, second), alone, alone[::-1], strict=True):
        if any(mistake.says in name for name in names):
            how.append("name")
            continue
        hints, theirs, got = (
            {test.hint for test in failed(problem, *of) if test.hint}
            for of in ((mine, False), (other, False), (source, True))
        )
        how.append("hint" if got & (hints - theirs) else "-")
    right = {first.says, second.says}
    for one in alone if not all(name & right for name in names) else ():
        right |= set().union(*names_in(failed(problem, one, True)))
    return how, [" Or: ".join(name) for name in names if not name & right]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Measure how pairs of known mistakes are told.")
    parser.add_argument("--pairs", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", action="append", help="a problem; all by default")
    options = parser.parse_args()
    import_libraries(COURSE)
    rng, found = random.Random(options.seed), []
    todo = [pairs_of(name, rng) for name in options.only or [p.id for p in COURSE.problems]]
    turns = (pair for turn in itertools.zip_longest(*todo) for pair in turn if pair)
    for pair in itertools.islice(turns, options.pairs):
        found.append(told(*pair))
        print(pair[0].problem, pair[0].name, pair[1].name, *found[-1], flush=True)
    both, false = sum("-" not in how for how, _ in found), sum(bool(names) for _, names in found)
    print(f"{both} of {len(found)} pairs: both told; {false} pairs with a false name")
