"""The result as one HTML page for the student: what to do next, then each mistake once.

The page needs no other file, no network and no script, and prints on two sheets.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from markupsafe import escape

from grader.base.errors import Status
from grader.report import pages
from grader.report.excerpts import Excerpt, excerpt
from grader.report.reasons import (
    NotAttempted,
    Reason,
    by_reason,
    counted,
    environments,
    not_attempted,
    reasons_in,
)
from grader.report.remarks import Standing, clean, final_points, in_points, number, remarks
from grader.results.records import ProblemResult, SubmissionResult

TEMPLATES = Path(__file__).parent / "templates"
MAX_BLOCKS = 60  # reasons shown with all details; a list names the others
MAX_BYTES = 200_000  # approximate limit for all blocks together
MAX_LEFT = 30  # other reasons that get one line each
MAX_NEXT = 3  # reasons listed under "What to do next"
MAX_FACTS = 20
MAX_RULES = 3
MAX_TESTS = 12  # names of tests
MAX_IGNORED = 20
LONGEST = 300  # characters of a rule, a hint or a fact
# The CSS class of a status; see look.css.
LOOKS = {
    Status.PASSED: "good",
    Status.NOT_ATTEMPTED: "muted",
    Status.DEFERRED: "warn",
    Status.GRADER_ERROR: "ours",
}


@dataclass(frozen=True)
class Row:
    """A problem in the table."""

    id: str
    link: str
    section: str
    score: str
    of: str
    share: float
    tests: str
    status: str
    look: str


@dataclass(frozen=True)
class Block:
    """One reason, with all details that the page shows."""

    problem: str
    cost: str
    look: str
    head: str
    facts: list[tuple[str, str]]
    mistake: str
    rules: list[str]
    more_rules: int
    hint: str
    link: str
    section: str
    tests: list[str]
    more_tests: int
    count: str
    excerpt: Excerpt | None
    is_ours: bool

    @property
    def size(self) -> int:
        """The approximate size of the block in the page, in bytes."""
        facts = [part for fact in self.facts for part in fact]
        quoted = [line.html for line in self.excerpt.lines] if self.excerpt else []
        texts = [self.head, self.mistake, self.hint, *self.rules, *self.tests, *facts, *quoted]
        return 1_500 + sum(len(escape(text).encode()) + 60 for text in texts)


def render(
    result: SubmissionResult,
    standing: Standing | None = None,
    *,
    sources: Mapping[str, bytes],
    sections: Mapping[str, str],
    links: Mapping[str, str],
) -> str:
    """The page, of at most 300 KB.

    Args:
        result: What to report.
        standing: The student's grade, which replaces the result's score.
        sources: The graded sources, which the page quotes; empty if they are unavailable.
        sections: For each problem's id, the section of the handout.
        links: For each problem's id, the address of that section; empty if it has none.
    """
    reasons = reasons_in(result)
    blocks: list[Block] = []
    room = MAX_BYTES
    for reason in reasons[:MAX_BLOCKS]:
        block = _block(reason, sources, sections, links)
        if (room := room - block.size) < 0:
            break
        blocks.append(block)
    left = reasons[len(blocks) :]
    points = final_points(result, standing)
    of = result.max_score + result.pending
    name = clean(result.submission.name, 100)
    got = "No points yet" if points is None else f"{number(points)} of {number(of)} points"
    return pages.render(
        "report.html",
        title=f"{got}: {name}",
        styles=[(TEMPLATES / "report.css").read_text(encoding="utf-8")],
        name=name,
        got=got,
        share=0.0 if points is None or not of else min(1.0, points / of),
        remarks=[clean(text) for text in remarks(result, standing)[:50]],
        next_steps=blocks[:MAX_NEXT],
        untouched=_untouched(not_attempted(result)),
        first_stub=_first_stub(result, sections, links),
        everything_passes=all(
            test.status is Status.PASSED for p in result.problems for test in counted(p)
        ),
        rows=[_row(problem, sections, links) for problem in result.problems[:200]],
        blocks=blocks,
        left=[_named(reason) for reason in left[:MAX_LEFT]],
        more_left=max(0, len(left) - MAX_LEFT),
        foot=_foot(result),
        ignored=[
            (clean(why, LONGEST), [clean(path, 200) for path in paths[:MAX_IGNORED]], len(paths))
            for why, paths in list(by_reason(result.submission.ignored).items())[:MAX_IGNORED]
        ],
        max_ignored=MAX_IGNORED,
    )


def _row(problem: ProblemResult, sections: Mapping[str, str], links: Mapping[str, str]) -> Row:
    tests = counted(problem)
    passed = sum(test.status is Status.PASSED for test in tests)
    return Row(
        id=clean(problem.id, 100),
        link=links.get(problem.id, ""),
        section=sections.get(problem.id, ""),
        score=number(problem.score),
        of=number(problem.max_score),
        share=problem.score / problem.max_score if problem.max_score else 0.0,
        tests=f"{passed} of {len(tests)}",
        status=problem.status.value.replace("_", " "),
        look=LOOKS.get(problem.status, "bad"),
    )


def _block(
    reason: Reason,
    sources: Mapping[str, bytes],
    sections: Mapping[str, str],
    links: Mapping[str, str],
) -> Block:
    first, problem = reason.tests[0], reason.problem
    rules = list(dict.fromkeys(test.rule for test in reason.tests if test.rule))
    return Block(
        problem=clean(problem.id, 100),
        cost=_cost(reason),
        look=LOOKS.get(first.status, "bad"),
        head=clean(first.said),
        facts=[(clean(f.label, 30), clean(f.text, 500)) for f in first.facts[:MAX_FACTS]],
        mistake=clean(first.mistake, LONGEST),
        rules=[clean(rule, LONGEST) for rule in rules[:MAX_RULES]],
        more_rules=max(0, len(rules) - MAX_RULES),
        hint=clean(first.hint or "", LONGEST),
        link=links.get(problem.id, ""),
        section=sections.get(problem.id, ""),
        tests=[clean(test.id, 150) for test in reason.tests[:MAX_TESTS]],
        more_tests=max(0, len(reason.tests) - MAX_TESTS),
        count=f"{len(reason.tests)} of {len(counted(problem))} tests",
        excerpt=None if reason.is_ours else excerpt(reason, sources),
        is_ours=reason.is_ours,
    )


def _cost(reason: Reason) -> str:
    if reason.is_ours:
        return "our fault, costs nothing"
    if not reason.points:
        return "costs nothing yet: a run on a GPU decides"
    return f"−{in_points(reason.points)}"


def _named(reason: Reason) -> str:
    """One line about a reason that has no block."""
    return f"{clean(reason.tests[0].head(reason.problem.id), 200)} ({_cost(reason)})"


def _untouched(missing: NotAttempted) -> str:
    """A sentence about the stubs that remain; empty if there are none."""
    if not missing.names:
        return ""
    return f"Not begun, {in_points(missing.points)}: {clean(', '.join(missing.names))}."


def _first_stub(
    result: SubmissionResult, sections: Mapping[str, str], links: Mapping[str, str]
) -> Row | None:
    """The first problem that has not been begun."""
    for problem in result.problems:
        if problem.status is Status.NOT_ATTEMPTED and not problem.score:
            return _row(problem, sections, links)
    return None


def _foot(result: SubmissionResult) -> list[str]:
    """Facts about the run: time, versions, isolation and hashes."""
    grader = result.grader
    return [
        f"Graded in {result.seconds:.1f} s by grader {clean(grader.version, 50)}, on the device "
        f"{grader.device}, with seed {grader.seed}.",
        f"Isolation: {grader.isolation}"
        + (" – NOT ISOLATED, for debugging only." if grader.isolation == "none" else "."),
        f"Sources {result.submission.sha256[:12]}, suite {grader.suite_sha256[:12]}.",
        *(clean(line, LONGEST) for line in environments(result)),
    ]
