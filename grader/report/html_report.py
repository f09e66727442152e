"""The result as one HTML page for the student: what to do next, then each mistake once.

The page needs no other file, no network and no script.
"""

from pathlib import Path
from typing import Any

from markupsafe import escape

from grader.base.errors import Status
from grader.report import html_pages
from grader.report.code_excerpts import excerpt
from grader.report.lost_points import Reason
from grader.report.report_contents import RemainingStubs, Reported
from grader.report.shared_wording import clean, in_points, number
from grader.results.result_records import ProblemResult

TEMPLATES = Path(__file__).parent / "templates"
MAX_BLOCKS = 60  # reasons shown with all details; a list names the others
MAX_BYTES = 200_000  # approximate limit for all blocks together
MAX_LEFT = 30  # other reasons that get one line each
MAX_NEXT = 3  # reasons listed under "What to do next"
MAX_FACTS = 20
MAX_RULES = 3
MAX_TESTS = 12  # names of tests
MAX_NOTES = 30  # comments by people
LONGEST = 300  # characters of a rule, a hint or a fact
# The CSS class of a status; see base.css.
LOOKS = {
    Status.PASSED: "good",
    Status.NOT_ATTEMPTED: "muted",
    Status.DEFERRED: "warn",
    Status.GRADER_ERROR: "ours",
}


# What the template shows of a problem in the table, or of a reason.
Shown = dict[str, Any]


def _size(block: Shown) -> int:
    facts = [part for fact in block["facts"] for part in fact]
    quoted = [line.html for line in block["excerpt"].lines] if block["excerpt"] else []
    texts = [block["head"], block["mistake"], block["hint"], *block["rules"], *block["tests"]]
    return 1_500 + sum(len(escape(text).encode()) + 60 for text in [*texts, *facts, *quoted])


def render(reported: Reported) -> str:
    """The page, of at most 300 KB."""
    result, points, of = reported.result, reported.points, reported.out_of
    notes = [note.text for note in reported.notes[:MAX_NOTES]]
    blocks = _blocks(reported, MAX_BYTES - sum(len(escape(text).encode()) for text in notes))
    left = reported.reasons[len(blocks) :]
    name = clean(result.submission.name, 100)
    return html_pages.render(
        "report.html",
        title=f"{reported.headline}: {name}",
        styles=[(TEMPLATES / "report.css").read_text(encoding="utf-8")],
        name=name,
        got=reported.headline,
        share=0.0 if points is None or not of else min(1.0, points / of),
        remarks=[clean(text) for text in reported.remarks[:50]],
        notes=notes,
        more_notes=max(0, len(reported.notes) - MAX_NOTES),
        next_steps=blocks[:MAX_NEXT],
        untouched=_untouched(reported.not_attempted),
        first_stub=_first_stub(reported),
        everything_passes=bool(result.problems)
        and not reported.reasons
        and not reported.not_attempted.names,
        pending=result.pending,
        rows=[_row(problem, reported) for problem in result.problems],
        blocks=blocks,
        left=[f"{clean(one.head, 200)} ({_cost(one)})" for one in left[:MAX_LEFT]],
        more_left=max(0, len(left) - MAX_LEFT),
        foot=_foot(reported),
        ignored=[
            f"{clean(why, LONGEST)}: {', '.join(clean(path, 200) for path in paths)}"
            for why, paths in reported.ignored.items()
        ],
    )


def _blocks(reported: Reported, room: int) -> list[Shown]:
    """The reasons that fit with all details into this number of bytes."""
    blocks: list[Shown] = []
    for reason in reported.reasons[:MAX_BLOCKS]:
        block = _block(reason, reported)
        if (room := room - _size(block)) < 0:
            break
        blocks.append(block)
    return blocks


def _row(problem: ProblemResult, reported: Reported) -> Shown:
    return {
        "id": clean(problem.id, 100),
        "link": reported.links.get(problem.id, ""),
        "section": reported.sections.get(problem.id, ""),
        "score": number(problem.score),
        "of": number(problem.max_score),
        "share": problem.score / problem.max_score if problem.max_score else 0.0,
        "tests": f"{problem.passed} of {len(problem.counted)}",
        "status": problem.status.words,
        "look": LOOKS.get(problem.status, "bad"),
    }


def _block(reason: Reason, reported: Reported) -> Shown:
    first, problem, rules = reason.first, reason.problem.id, reason.rules
    return {
        "problem": clean(problem, 100),
        "cost": _cost(reason),
        "look": LOOKS.get(first.status, "bad"),
        "head": clean(first.said),
        "facts": [(clean(f.label, 30), clean(f.text, 500)) for f in first.facts[:MAX_FACTS]],
        "mistake": clean(first.mistake, LONGEST),
        "rules": [clean(rule, LONGEST) for rule in rules[:MAX_RULES]],
        "more_rules": max(0, len(rules) - MAX_RULES),
        "hint": clean(first.hint or "", LONGEST),
        "link": reported.links.get(problem, ""),
        "section": reported.sections.get(problem, ""),
        "tests": [clean(test.id, 150) for test in reason.tests[:MAX_TESTS]],
        "more_tests": max(0, len(reason.tests) - MAX_TESTS),
        "count": reason.share,
        "excerpt": None if reason.is_ours else excerpt(reason, reported.sources),
        "is_ours": reason.is_ours,
    }


def _cost(reason: Reason) -> str:
    if reason.is_ours:
        return "our fault, costs nothing"
    if not reason.points:
        return "costs nothing yet: a run on a GPU decides"
    return f"−{in_points(reason.points)}"


def _untouched(missing: RemainingStubs) -> str:
    if not missing.names:
        return ""
    return f"Not begun, {in_points(missing.points)}: {clean(', '.join(missing.names))}."


def _first_stub(reported: Reported) -> Shown | None:
    for problem in reported.result.problems:
        if problem.status is Status.NOT_ATTEMPTED and not problem.score:
            return _row(problem, reported)
    return None


def _foot(reported: Reported) -> list[str]:
    """Facts about the run: time, versions, isolation and hashes."""
    result, grader = reported.result, reported.result.grader
    return [
        f"Graded in {result.seconds:.1f} s by grader {clean(grader.version, 50)}, on the device "
        f"{grader.device}, with seed {grader.seed}.",
        f"Isolation: {grader.isolation}"
        + (" – NOT ISOLATED, for debugging only." if grader.isolation == "none" else "."),
        f"Sources {result.submission.sha256[:12]}, suite {grader.suite_sha256[:12]}.",
        *(clean(line, LONGEST) for line in reported.environments),
    ]
