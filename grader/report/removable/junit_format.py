"""The result as JUnit XML, in the form that Jenkins and GitLab read: one test suite per problem."""

import re
import xml.etree.ElementTree as ET

from grader.base.errors import Status
from grader.report.gradebook_notes import Note
from grader.report.report_contents import Format, Reported
from grader.report.shared_wording import clean, number
from grader.results.result_records import ProblemResult, TestResult

SKIPPED = (Status.DEFERRED, Status.NOT_ATTEMPTED)
# Characters that XML 1.0 forbids, even as references.
FORBIDDEN = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def render(reported: Reported) -> str:
    """The text of the XML file, for UTF-8.

    A fault of the grader is an `error`. A test that waits for another device, or whose problem was
    not attempted, is `skipped`. Any other test that did not pass is a `failure`.
    """
    result = reported.result
    tests = [test for problem in result.problems for test in problem.tests]
    root = ET.Element(
        "testsuites",
        {"name": _text(result.submission.name), **_counts(tests), "time": f"{result.seconds:.3f}"},
    )
    root.extend(_suite(problem) for problem in result.problems)
    _add_notes(root, reported.notes)
    ET.indent(root)
    declaration = '<?xml version="1.0" encoding="UTF-8"?>\n'
    return declaration + ET.tostring(root, encoding="unicode") + "\n"


def _suite(problem: ProblemResult) -> ET.Element:
    """One problem, with its points as properties."""
    seconds = sum(test.seconds for test in problem.tests)
    skipped = sum(test.status in SKIPPED for test in problem.tests)
    suite = ET.Element(
        "testsuite",
        {
            "name": _text(problem.id),
            **_counts(problem.tests),
            "skipped": str(skipped),
            "time": f"{seconds:.3f}",
        },
    )
    properties = ET.SubElement(suite, "properties")
    for name in ("score", "max_score", "pending"):
        value = number(getattr(problem, name), 4)
        ET.SubElement(properties, "property", {"name": name, "value": value})
    suite.extend(_case(problem, test) for test in problem.tests)
    return suite


def _add_notes(root: ET.Element, notes: list[Note]) -> None:
    """Add what people wrote as output: to the suite of its problem, or else to the first one."""
    suites = {suite.get("name", ""): suite for suite in root}
    texts: dict[str, list[str]] = {}
    for note in notes:
        name = _text(note.problem)
        texts.setdefault(name if name in suites else next(iter(suites), ""), []).append(note.text)
    for name, lines in texts.items():
        if name in suites:
            ET.SubElement(suites[name], "system-out").text = "\n".join(map(_text, lines))


def _counts(tests: list[TestResult]) -> dict[str, str]:
    """The number of tests, of the student's failures, and of the grader's errors."""
    errors = sum(test.status is Status.GRADER_ERROR for test in tests)
    fine = sum(test.status in (Status.PASSED, *SKIPPED) for test in tests)
    return {
        "tests": str(len(tests)),
        "failures": str(len(tests) - fine - errors),
        "errors": str(errors),
    }


def _case(problem: ProblemResult, test: TestResult) -> ET.Element:
    """One test and, unless it passed, what happened."""
    case = ET.Element(
        "testcase",
        {
            "classname": _text(f"{problem.module}.{problem.id}"),
            "name": _text(test.id),
            "time": f"{test.seconds:.3f}",
        },
    )
    if test.status in SKIPPED:
        why = test.said or test.status.words
        ET.SubElement(case, "skipped", {"message": _text(why)})
    elif test.status is not Status.PASSED:
        kind = "error" if test.status is Status.GRADER_ERROR else "failure"
        found = {"type": test.status.value, "message": _text(test.said)}
        ET.SubElement(case, kind, found).text = "\n".join(_details(test))
    return case


def _details(test: TestResult) -> list[str]:
    labelled = [(fact.label, fact.text) for fact in test.facts]
    labelled += [("looks like", test.mistake), ("rule", test.rule), ("hint", test.hint or "")]
    return [f"{_text(label)}: {_text(text)}" for label, text in labelled if text]


def _text(text: str) -> str:
    """Untrusted text as one line that is valid in XML."""
    return FORBIDDEN.sub("", clean(text))


FORMAT = Format(
    render,
    "xml",
    file="Write the report as JUnit XML.",
    folder="JUnit XML for each student.",
    of_refused=False,  # without a failed test, it would say that all is well
)
