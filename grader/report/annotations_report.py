"""The failures as annotations of a GitHub workflow, beside the student's lines of code.

The workflow has to run in the repository whose code was graded, with `assignment/` at its root.
"""

from grader.report.failure_places import place_of
from grader.report.lost_points import Reason
from grader.report.report_contents import Reported
from grader.report.shared_wording import clean, in_points, number
from kit import handing_in
from kit.workflow_commands import Annotation, annotations

MAX_RULES = 3


def render(reported: Reported) -> str:
    """The commands, the most expensive failure first; a fault of the grader is a notice."""
    theirs = [reason for reason in reported.reasons if not reason.is_ours]
    ours = [reason for reason in reported.reasons if reason.is_ours]
    summary = Annotation(reported.headline, "\n".join([*reported.said, *_problems(reported)]))
    faults = [Annotation(f"{_title(one)}: our fault", clean(one.head)) for one in ours]
    return annotations([_of(one, reported) for one in theirs], [summary, *faults])


def _of(reason: Reason, reported: Reported) -> Annotation:
    first = reason.first
    place = place_of(reason, reported.sources)
    lines = [clean(reason.head), *reason.fact_lines]
    lines += [f"looks like: {clean(first.mistake)}"] if first.mistake else []
    lines += [f"rule: {clean(rule)}" for rule in reason.rules[:MAX_RULES]]
    lines += [f"hint: {clean(first.hint)}"] if first.hint else []
    if section := reported.sections.get(reason.problem.id, ""):
        lines.append(f"see: handout §{section}")
    cost = f": −{in_points(reason.points)}" if reason.points else ""
    return Annotation(
        title=f"{_title(reason)}{cost}",
        message="\n".join(lines),
        path=place.path if place else handing_in.path_of(reason.problem.module),
        line=place.numbers[0] if place else 0,
    )


def _title(reason: Reason) -> str:
    return clean(reason.problem.id, 100)


def _problems(reported: Reported) -> list[str]:
    return [
        f"{clean(one.id, 100)}: {number(one.score)} of {in_points(one.max_score)}"
        for one in reported.result.problems
    ]
