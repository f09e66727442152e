"""A summary of a class's results, for a terminal."""

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from grader.analysis.class_statistics import Survey
from grader.analysis.mistake_drafts import EqualAnswers
from grader.report.shared_wording import clean, number
from grader.report.terminal_report import printed

WIDE = 160  # the width in columns if stdout is not a terminal
NUMBERS = ("students", "mean", "began it", "points lost", "passes", "tests")


def mistakes(found: Survey, *, top: int) -> str:
    """The hardest problems, the most common mistakes, and the tests that may be wrong."""
    graded = f"{len(found.points)} of {len(found.members)} students have a grade"
    parts: list[RenderableType] = [Text(graded), ""]
    for title, table in [
        ("hardest problems, by the mean of the students who began them", _problems(found, top)),
        ("most common mistakes", _mistakes(found, top)),
        ("suspicious tests", _tests(found, top)),
    ]:
        if table.row_count:
            parts += [Text(title, style="bold"), table, ""]
    if not found.suspicious:
        parts.append(Text(found.verdict))
    return printed(*parts, wide=WIDE)


def groups(found: list[EqualAnswers]) -> str:
    """The groups of students with equal answers, and whether their programs can be drafts."""
    if not found:
        return "no two students have equal answers that no known mistake explains\n"
    table = _table("students", "points lost", "problem", "tests", "first failed test", "draft")
    for one in found:
        first = one.alike.answers[0]
        table.add_row(
            str(one.students),
            number(one.points * one.students, 1),
            one.problem.id,
            str(len(one.alike.answers)),
            Text(clean(f"{first.test}: {first.said}", WIDE)),
            "yes" if one.programs else "no: no program is Python, and short",
        )
    title = Text("equal answers that no known mistake explains", style="bold")
    return printed(title, table, wide=WIDE)


def _table(*columns: str) -> Table:
    table = Table(box=None, pad_edge=False)
    for column in columns:
        table.add_column(column, justify="right" if column in NUMBERS else "left", overflow="fold")
    return table


def _problems(found: Survey, top: int) -> Table:
    table = _table("mean", "began it", "problem", "handout")
    begun = [(topic.share, topic) for topic in found.problems if topic.share is not None]
    for share, topic in sorted(begun, key=lambda pair: pair[0])[:top]:
        table.add_row(f"{100 * share:.0f} %", str(topic.begun), topic.id, f"§{topic.section}")
    return table


def _mistakes(found: Survey, top: int) -> Table:
    table = _table("students", "points lost", "problem", "handout", "mistake")
    for one in found.mistakes[:top]:
        topic = found.problems[one.problem]
        table.add_row(
            str(len(one.students)),
            number(one.points, 1),
            topic.id,
            f"§{topic.section}",
            Text(one.text, style="" if one.is_known else "dim"),
        )
    return table


def _tests(found: Survey, top: int) -> Table:
    table = _table("passes", "problem", "test", "remark")
    for at in found.suspicious[:top]:
        item = found.tests[at]
        share = "" if item.difficulty is None else f"{100 * item.difficulty:.0f} %"
        table.add_row(share, found.problems[item.problem].id, item.id, item.remark)
    return table
