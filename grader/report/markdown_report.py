"""The result as GitHub-flavoured Markdown, for a comment or a job summary.

Untrusted text can become neither markup nor HTML, a link or a mention. It is put into code, where
GitHub interprets nothing. In prose, such as a rule, special characters are written as references.
"""

import re

from grader.report.gradebook_notes import Note
from grader.report.lost_points import Reason
from grader.report.report_contents import RemainingStubs, Reported
from grader.report.shared_wording import MAX_TEXT, clean, in_points, number, unlinked
from grader.results.result_records import ProblemResult, SubmissionResult
from kit.safe_text import counted, first

LIMIT = 60_000  # characters; GitHub allows 65,536 in a comment
FOR_THE_REST = 3_000  # reserved for the sentences about omitted parts
FOR_NOTES = 15_000  # reserved for what people wrote
MAX_FACTS = 20
MAX_RULES = 3
MAX_NAMED = 10  # the most names in a sentence
MAX_ID = 100
SPECIAL = "\\`*_{}[]<>()#|~&!@$^\u200b"
REFERENCES = str.maketrans({character: f"&#{ord(character)};" for character in SPECIAL})


def render(reported: Reported) -> str:
    """The report as Markdown of fewer than 60,000 characters."""
    result, reasons = reported.result, reported.reasons
    around = [
        f"## {reported.headline}\n\nSubmission {code(result.submission.name)}",
        *(prose(remark) for remark in reported.remarks[:50]),
        *_notes(reported.notes),
        _table(result.problems),
        *_not_attempted(reported.not_attempted),
    ]
    foot = _foot(result)
    room = LIMIT - FOR_THE_REST - len(foot) - sum(len(part) + 2 for part in around)
    blocks = _fitting([_reason(reason, reported) for reason in reasons], room)
    parts = [*around, *blocks, *_left_out(reasons[len(blocks) :]), foot]
    return "\n\n".join(parts) + "\n"


def _notes(notes: list[Note]) -> list[str]:
    """A list of what people wrote, and a sentence about what does not fit."""
    items = _fitting([f"- {prose(note.text, MAX_TEXT)}" for note in notes], FOR_NOTES)
    left = len(notes) - len(items)
    comments = counted(left, "more comment is", "more comments are")
    more = [f"{comments} left out to keep this report short."] if left else []
    return [*(["\n".join(items)] if items else []), *more]


def _fitting(parts: list[str], room: int) -> list[str]:
    """The first parts that fit together into this number of characters."""
    for count, part in enumerate(parts):
        room -= len(part) + 2
        if room < 0:
            return parts[:count]
    return parts


def _table(problems: list[ProblemResult]) -> str:
    head = "| problem | points | tests passed | status |\n|:--|--:|--:|:--|"
    return "\n".join([head, *map(_row, problems)])


def _row(problem: ProblemResult) -> str:
    cells = [
        prose(problem.id, MAX_ID),
        f"{number(problem.score)} / {number(problem.max_score)}",
        f"{problem.passed} / {len(problem.counted)}",
        problem.status.words,
    ]
    return f"| {' | '.join(cells)} |"


def _not_attempted(missing: RemainingStubs) -> list[str]:
    """A sentence about the problems that still have stubs."""
    if not missing.problems:
        return []
    return [f"Not attempted, {in_points(missing.points)}: {_names(missing.problems)}."]


def _reason(reason: Reason, reported: Reported) -> str:
    """One mistake or failure: what happened, the likely mistake, the rules, and its cost."""
    first, problem, rules = reason.first, reason.problem.id, reason.rules
    lines = [clean(reason.head), *reason.fact_lines[:MAX_FACTS]]
    items = [f"looks like: {prose(first.mistake)}"] if first.mistake else []
    items += [f"hint: {prose(first.hint)}"] if first.hint else []
    items += [f"rule: {prose(rule)}" for rule in rules[:MAX_RULES]]
    if len(rules) > MAX_RULES:
        items.append(f"and {counted(len(rules) - MAX_RULES, 'more rule')}")
    if section := "" if reason.is_ours else reported.sections.get(problem, ""):
        link = reported.links.get(problem, "")
        items.append(f"see: [handout §{section}]({link})" if link else f"see: handout §{section}")
    items.append(f"tests: {_names([test.id for test in reason.tests])}")
    listed = "\n".join(f"- {item}" for item in items)
    return f"### {prose(problem, MAX_ID)}: {_cost(reason)}\n\n{block(lines)}\n\n{listed}"


def _cost(reason: Reason) -> str:
    if reason.is_ours:
        return "our fault, no points lost"
    if not reason.points:
        return f"{reason.first.status.value}, no points lost"
    return f"{reason.first.status.value}, {in_points(reason.points)} lost"


def _left_out(reasons: list[Reason]) -> list[str]:
    """A sentence about the failures that are not shown."""
    if not reasons:
        return []
    failures = counted(len(reasons), "more failure is", "more failures are")
    names = _names(list(dict.fromkeys(reason.problem.id for reason in reasons)))
    points = in_points(sum(reason.points for reason in reasons if not reason.is_ours))
    return [f"{failures} left out to keep this report short ({points}, in {names})."]


def _foot(result: SubmissionResult) -> str:
    grader = result.grader
    version = grader.environment.get("python")
    python = f" and Python {code(version)}" if version else ""
    return (
        f"Graded in {result.seconds:.1f} s by grader {code(grader.version)}{python}, "
        f"suite {code(grader.suite_sha256[:12])}, device {code(grader.device)}."
    )


def _names(names: list[str]) -> str:
    """Up to ten names as code, then the number of the others."""
    return first([code(name) for name in names], MAX_NAMED)


def code(text: str) -> str:
    """A text as a code span, which no backtick inside it can end.

    If the text starts or ends with a backtick, a space on each side separates it from the fence.
    Markdown removes one space from each side, so a text that starts or ends with a space gets them
    too. A pipe would end a table's cell, so use `prose` in tables.
    """
    line = clean(text, MAX_ID)
    if not line.strip():
        return "(empty)"
    fence = "`" * (_longest_run(line) + 1)
    pad = " " if {line[0], line[-1]} & {"`", " "} else ""
    return f"{fence}{pad}{line}{pad}{fence}"


def block(lines: list[str]) -> str:
    """Lines as a code block, which no backtick inside them can end."""
    fence = "`" * max(3, _longest_run("\n".join(lines)) + 1)
    return "\n".join([f"{fence}text", *lines, fence])


def prose(text: str, limit: int = 300) -> str:
    """A text as plain words, for a paragraph, a list item or a table's cell."""
    return unlinked(clean(text, limit)).translate(REFERENCES)


def _longest_run(text: str) -> int:
    return max(map(len, re.findall("`+", text)), default=0)
