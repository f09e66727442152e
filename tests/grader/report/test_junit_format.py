"""JUnit XML, as a program that reads JUnit reports would understand it."""

import xml.etree.ElementTree as ET

from grader.report.removable import junit_format as junit_report
from grader.report.report_contents import Reported
from grader.results.points import problem_result
from tests.grader.report.sample_results import HOSTILE, every_status, failed, hostile, result

COUNTS = {"name", "tests", "failures", "errors", "time"}
# What Jenkins and Maven's surefire read: the attributes of each element, and its parts in order.
ELEMENTS = {
    "testsuites": (COUNTS, ["testsuite"]),
    "testsuite": (COUNTS | {"skipped"}, ["properties", "testcase", "system-out"]),
    "properties": (set(), ["property"]),
    "property": ({"name", "value"}, []),
    "testcase": ({"name", "classname", "time"}, ["skipped", "error", "failure"]),
    "skipped": ({"message"}, []),
    "error": ({"type", "message"}, []),
    "failure": ({"type", "message"}, []),
    "system-out": (set(), []),
}


def written(found):
    """The root element of the file, whose elements are those that its readers know."""
    root = ET.fromstring(junit_report.render(Reported(found)).encode())
    assert "testsuites" == root.tag
    for element in root.iter():
        attributes, parts = ELEMENTS[element.tag]
        assert attributes == set(element.keys())
        places = [parts.index(part.tag) for part in element]
        assert sorted(places) == places
        assert element.tag != "testcase" or len(places) <= 1
        counts = [value for key, value in element.items() if key in COUNTS - {"name", "time"}]
        assert all(count.isdecimal() for count in counts)
        assert float(element.get("time", 0)) >= 0
    return root


def kinds(root):
    """The outcome of each test case, as the tags and types of its child elements."""
    return {
        case.get("name"): [(part.tag, part.get("type")) for part in case]
        for case in root.iter("testcase")
    }


def test_each_test_ends_in_one_of_four_ways():
    """Grader faults are errors, and tests that did not run are skipped; neither is a failure."""
    assert kinds(written(every_status(grader_error=True))) == {
        "test_a": [],
        "test_b": [("failure", "failed")],
        "test_c": [("failure", "failed")],
        "test_d": [("failure", "crashed")],
        "test_e": [],
        "test_f": [("failure", "timeout")],
        "test_error": [("error", "grader_error")],
        "test_g": [("failure", "memory")],
        "test_h": [("failure", "policy")],
        "test_i": [("skipped", None)],
        "test_j": [("skipped", None)],
    }


def test_the_counts_agree_with_the_test_cases():
    root = written(every_status(grader_error=True))
    for element in (root, *root.iter("testsuite")):
        cases = list(element.iter("testcase"))
        for tag, count in (("failure", "failures"), ("error", "errors")):
            assert element.get(count) == str(len(list(element.iter(tag))))
        assert element.get("tests") == str(len(cases))
    assert ["0", "1", "1"] == [suite.get("skipped") for suite in root]


def test_a_failure_has_the_message_and_the_facts():
    (failure,) = [case[0] for case in written(every_status())[0] if case.get("name") == "test_b"]
    assert "forward: wrong values" == failure.get("message")
    assert failure.text == (
        "expected: 0.5 at [0, 2]\n"
        "got: 0.25\n"
        "rule: The output is x times the transposed weight.\n"
        "hint: Is the weight transposed?"
    )


def test_a_problem_is_a_suite_with_its_points():
    """The class name contains the module, because JUnit viewers group by it."""
    suite = written(every_status())[1]
    points = {p.get("name"): p.get("value") for p in suite.iter("property")}
    assert {"score": "0", "max_score": "5", "pending": "0"} == points
    assert {"m.adamw"} == {case.get("classname") for case in suite.iter("testcase")}
    assert ("adamw", "0.750") == (suite.get("name"), suite.get("time"))


def test_hostile_texts_are_read_back_as_text():
    root = written(hostile())
    assert 3 * len(HOSTILE) == len(list(root.iter("failure")))
    messages = [failure.get("message") for failure in root.iter("failure")]
    assert "]]> <![CDATA[ &amp; <!-- x -->: ]]> <![CDATA[ &amp; <!-- x -->" in messages
    assert "first\\nsecond\\r\\nthird: first\\nsecond\\r\\nthird" in messages
    assert "\\x00\\x0b\\ud800: \\x00\\x0b\\ud800" in messages


def test_every_character_can_be_written():
    text = "".join(map(chr, [*range(0x300), *range(0xD700, 0xE100), *range(0xFD00, 0x10100)]))
    for part in (text[i : i + 500] for i in range(0, len(text), 500)):
        found = result(problem_result("a", "m", 1, [failed("x", part, about=part)]))
        written(found)
