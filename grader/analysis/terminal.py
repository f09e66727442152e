"""A summary of a class's results, for a terminal."""

from rich.console import Console
from rich.table import Table
from rich.text import Text

from grader.analysis.survey import Survey
from grader.report.wording import number

WIDE = 160  # the width in columns if stdout is not a terminal


def mistakes(found: Survey, *, top: int) -> str:
    """The hardest problems, the most common mistakes, and the tests that may be wrong."""
    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = WIDE
    graded = len(found.points)
    with console.capture() as text:
        console.print(Text(f"{graded} of {len(found.members)} students have a grade"), "\n")
        for title, table in [
            ("hardest problems, by the mean of the students who began them", _problems(found, top)),
            ("most common mistakes", _mistakes(found, top)),
            ("suspicious tests", _tests(found, top)),
        ]:
            if table.row_count:
                console.print(Text(title, style="bold"))
                console.print(table, "\n")
        if not found.suspicious:
            console.print(Text("no test is suspicious"))
    return "".join(line.rstrip() + "\n" for line in text.get().splitlines())


def _table(*columns: str) -> Table:
    table = Table(box=None, pad_edge=False)
    for column in columns:
        is_number = column in ("students", "mean", "began it", "points lost", "passes")
        table.add_column(column, justify="right" if is_number else "left", overflow="fold")
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
