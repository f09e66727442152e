"""Annotations, as GitHub's runner reads them from a workflow's log.

`obeyed` follows the documentation "Workflow commands for GitHub Actions" and the runner's parser:
a command starts a line after spaces, or is `##[name]` anywhere in it; properties are separated by
commas; `stop-commands` turns commands off until its token.
"""

import re

import pytest

from grader.report import annotations_report, terminal_report
from grader.report.report_contents import Reported
from grader.results.points import problem_result
from grader.results.result_records import Fact
from kit import workflow_commands
from kit.workflow_commands import Annotation, annotations, quoted
from tests.grader.report.sample_results import (
    HARMLESS,
    HOSTILE,
    every_status,
    failed,
    hostile,
    result,
)

NAMES = {"error", "warning", "notice", "debug", "add-mask", "set-output", "set-env", "add-path"}
COMMAND = re.compile(r"\s*::(?P<name>[^ :]*)(?: (?P<properties>.*?))?::(?P<data>.*)", re.DOTALL)
SOURCE = b"import torch\n\n\ndef forward(x):\n    y = 2 * x\n    return y\n"


def unescaped(text, property=False):
    """A value as the runner reads it: escapes are replaced one after the other, `%25` last."""
    found = [("%0D", "\r"), ("%0A", "\n"), *([("%3A", ":"), ("%2C", ",")] if property else [])]
    for escape, character in [*found, ("%25", "%")]:
        text = text.replace(escape, character)
    return text


def obeyed(log):
    """Every command that GitHub obeys, as (name, properties, message)."""
    found, token = [], None
    for line in re.split(r"\r\n|[\r\n]", log):
        match = COMMAND.fullmatch(line)
        name = match and match["name"]
        if token is not None:
            token = None if name == token else token
        elif name == "stop-commands":
            token = match["data"]
        elif name in NAMES:
            pairs = [part.split("=", 1) for part in (match["properties"] or "").split(",")]
            properties = {pair[0]: unescaped(pair[1], True) for pair in pairs if len(pair) == 2}
            found.append((name, properties, unescaped(match["data"])))
        else:
            found += [(old, {}, "") for old in re.findall(r"##\[([\w-]+)", line) if old in NAMES]
    assert token is None
    return found


def rendered(found, **given):
    return obeyed(annotations_report.render(Reported(found, **given)))


def test_a_failure_stands_at_its_line_and_says_what_it_cost():
    """The place of a failure comes first, then the definition of the function."""
    at = Fact("at", "assignment/m.py:5 in forward")
    tests = [failed("a", "wrong values", facts=[at]), failed("b", "wrong shape")]
    found = result(problem_result("linear", "m", 4, tests))
    first, second, summary = rendered(found, sources={"assignment/m.py": SOURCE})
    assert (
        "error",
        {"file": "assignment/m.py", "line": "5", "title": "linear: −2 points"},
    ) == first[:2]
    assert first[2].splitlines()[:2] == [
        "linear · forward: wrong values",
        "  at        assignment/m.py:5 in forward",
    ]
    assert {"file": "assignment/m.py", "line": "4"}.items() <= second[1].items()
    assert ("notice", {"title": "0 of 4 points"}) == summary[:2]


@pytest.mark.parametrize("place", ["assignment/m.py:999", "assignment/other.py:1", "/etc/x.py:1"])
def test_a_line_that_is_not_in_the_code_is_left_out(place):
    tests = [failed("a", "wrong values", facts=[Fact("at", place)], about="unknown")]
    found = result(problem_result("linear", "m", 4, tests))
    (first, _) = rendered(found, sources={"assignment/m.py": SOURCE})
    assert {"file": "assignment/m.py", "title": "linear: −4 points"} == first[1]


def test_the_most_expensive_failures_are_shown_and_the_others_counted():
    """GitHub shows ten errors and ten warnings for a step."""
    tests = [failed(f"{i}", f"wrong {i}", weight=1 + i) for i in range(25)]
    found = rendered(result(problem_result("linear", "m", 100, tests)))
    assert ["error"] * 10 + ["warning"] * 10 + ["notice"] * 2 == [name for name, *_ in found]
    assert [f"linear · forward: wrong {i}" for i in range(24, 4, -1)] == [
        message.splitlines()[0] for *_, message in found[:20]
    ]
    assert "5 more failures are not shown here: GitHub shows 20" == found[-1][2]


def test_a_fault_of_the_grader_is_a_notice_and_no_error_of_the_student():
    found = rendered(every_status(grader_error=True))
    notices = [(one[1]["title"], one[2].splitlines()[0]) for one in found if one[0] == "notice"]
    assert "No points yet" == notices[0][0]
    assert ("linear: our fault", "linear · test_error: ZeroDivisionError: oops") in notices
    assert "ZeroDivisionError" not in "".join(one[2] for one in found if one[0] != "notice")


def test_hostile_texts_give_no_command():
    log = annotations_report.render(Reported(hostile()))
    found = obeyed(log)
    assert 22 == len(found) == len(log.splitlines())
    assert ["error"] * 10 + ["warning"] * 10 + ["notice"] * 2 == [name for name, *_ in found]
    assert {frozenset(p) for _, p, _ in found[:20]} == {frozenset({"file", "title"})}
    assert {c for c in log if not c.isprintable()} <= {"\n", *HARMLESS}


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_a_text_reads_back(text):
    shown = workflow_commands.printable(text, 4_000)
    ((name, properties, message),) = obeyed(annotations([Annotation(text, text, text, 7)]))
    assert ("error", "7", shown) == (name, properties["line"], message)
    title = workflow_commands.printable(text[:200], 200)
    assert (title, shown) == (properties["title"], properties["file"])
    assert [] == obeyed(quoted(text))


def test_no_command_in_the_printed_report_is_obeyed():
    """A wrapped line of the report may begin with a student's text."""
    words = "x" * 60 + " ::add-mask::0 ##[error]forged"
    found = result(problem_result("linear", "m", 4, [failed("a", words)]))
    report = terminal_report.render(Reported(found))
    assert [] != obeyed(report)
    assert [] == obeyed(quoted(report))
    assert report in quoted(report)
