"""The terminal's report distinguishes points that wait for another device from lost points."""

import io
import re

import msgspec
from rich.console import Console

from grader.base.errors import Status
from grader.report import terminal_report
from grader.report.report_contents import Reported
from grader.results.points import problem_result, submission_result
from grader.results.result_records import Outcome, SubmissionInfo
from tests.grader.report import sample_results

PASSED, FAILED, DEFERRED = Status.PASSED, Status.FAILED, Status.DEFERRED
TO_CUDA = "they need a CUDA device (grade with --device cuda, then `grader merge`)."
TO_CPU = "their tests run on a CPU (grade with --device cpu, then `grader merge`)."


def problem(name, points, device, *, cpu=(), cuda=()):
    """A problem whose tests ended with these statuses on a CPU and on a CUDA device."""
    ended = [("cpu", status) for status in cpu] + [("cuda", status) for status in cuda]
    tests = [
        Outcome(id=f"test_{i}", device=on, weight=1, status=status, what="said", rule=f"Rule {i}.")
        for i, (on, status) in enumerate(ended)
    ]
    return problem_result(name, "m", points, tests, device)


def report(*problems, verbose=False, runs=(), **given):
    """The report of these problems as lines; wrapped lines are joined again."""
    info = msgspec.structs.replace(sample_results.GRADER, **given)
    submission = SubmissionInfo(name="ada", sha256="ab" * 32, files=[], ignored=[])
    result = submission_result(submission, info, list(problems), seconds=1.0, runs=runs)
    text = terminal_report.render(Reported(result, verbose=verbose))
    return text.replace("then\n`grader", "then `grader").splitlines()


def row(lines, name):
    """The words of a table row, without its bar."""
    return [
        word
        for word in next(line for line in lines if line.startswith(name)).split()
        if not set(word) <= set("█·")
    ]


def test_a_cpu_run_says_what_waits_for_a_cuda_device():
    """Waiting points are in no total and never called lost; tests worth nothing are counted."""
    lines = report(
        problem("linear", 6, "cpu", cpu=[PASSED] * 3, cuda=[DEFERRED] * 2),
        problem("gpu", 5, "cuda", cpu=[PASSED], cuda=[DEFERRED] * 3),
    )
    assert ["linear", "6.00", "/", "6", "3/3", "passed"] == row(lines, "linear")
    assert ["gpu", "0.00", "/", "5", "1/4", "deferred"] == row(lines, "gpu")
    assert ["total", "6.00", "/", "6"] == row(lines, "total")
    at = lines.index(f"5 points are pending: {TO_CUDA}")
    assert [
        "2 tests for a CUDA device are pending as well.",
        "score 6.00 of 6   in 1.0 s",
    ] == lines[at + 1 : at + 3]
    assert not [line for line in lines if "lost" in line or "said" in line]


def test_a_cuda_run_says_what_waits_for_a_cpu():
    lines = report(
        problem("linear", 7, "cpu", cpu=[DEFERRED, DEFERRED], cuda=[PASSED]),
        problem("gpu", 5, "cuda", cpu=[DEFERRED], cuda=[PASSED] * 3),
        device="cuda",
    )
    assert ["linear", "2.33", "/", "7", "1/3", "deferred"] == row(lines, "linear")
    assert ["gpu", "5.00", "/", "5", "3/3", "passed"] == row(lines, "gpu")
    assert ["total", "7.33", "/", "7.33"] == row(lines, "total")
    at = lines.index(f"4.67 points are pending: {TO_CPU}")
    assert ["1 test for a CPU is pending as well.", "score 7.33 of 7.33   in 1.0 s"] == lines[
        at + 1 : at + 3
    ]


def test_where_no_points_wait_tests_are_told_alone():
    """A CPU problem may have all its points while a test of it still waits for a CUDA device."""
    lines = report(problem("linear", 6, "cpu", cpu=[PASSED], cuda=[DEFERRED]))
    assert "1 test for a CUDA device is pending." in lines
    assert not [line for line in lines if "points are pending" in line]
    merged = report(problem("gpu", 5, "cuda", cpu=[PASSED], cuda=[PASSED]), device="cpu+cuda")
    assert not [line for line in merged if "pending" in line]


def test_a_failure_that_costs_no_points_says_who_decides_them():
    for cpu, said in (([FAILED, PASSED], "test_0"), ([FAILED, FAILED], "2 of 3 tests")):
        lines = report(problem("gpu", 5, "cuda", cpu=cpu, cuda=[DEFERRED]))
        assert ["gpu", "0.00", "/", "5"] == row(lines, "gpu")[:4]
        assert f"  lost       nothing yet: a run on a GPU decides ({said})" in lines
    there = problem("gpu", 5, "cuda", cpu=[FAILED], cuda=[FAILED, PASSED])
    assert "  lost       2.50 points in 2 of 3 tests" in report(there, device="cpu+cuda")


def failed(name, points, count, **said):
    """A problem with `count` failed tests, each for a separate reason unless `said` gives one."""
    tests = [
        sample_results.ended(
            f"{i}",
            **{"status": FAILED, "about": "f", "what": f"reason {i}", "rule": f"Rule {i}."} | said,
        )
        for i in range(count)
    ]
    return problem_result(name, "m", points, tests)


def test_tests_that_one_mistake_fails_are_one_reason():
    """The mistake comes first, then the rules that it breaks, then the total cost."""
    lines = report(
        failed("adamw", 8, 5, mistake="ε stands inside the square root.", hint="where is ε?")
    )
    at = lines.index("adamw · f: reason 0")
    assert [
        "  looks like ε stands inside the square root.",
        "  hint       where is ε?",
        "  rules      Rule 0.",
        "             Rule 1.",
        "             Rule 2.",
        "             … and 2 more",
        "  lost       8.00 points in 5 of 5 tests",
    ] == lines[at + 1 : at + 8]


def test_the_easiest_problem_has_its_reason():
    """The costliest reason of each problem comes before any second one, in the order of costs."""
    problems = [failed(f"p{i}", 2 - i % 2, 9) for i in range(4)]
    lines = [line for line in report(*problems) if " · f: " in line]
    assert {f"p{i} · f: reason 0" for i in range(4)} < set(lines)
    assert lines.index("p0 · f: reason 1") < lines.index("p1 · f: reason 0")


def test_a_bad_submission_fits_into_sixty_lines():
    problems = [failed(f"p{i:02}", 1 + i, 6) for i in range(20)]
    lines = report(*problems)
    assert len(lines) <= 60
    assert lines.index("p19 · f: reason 0") < lines.index("p18 · f: reason 0")
    assert not [line for line in lines if line.startswith("p00 ·")]
    rest = next(line for line in lines if "more reasons" in line)
    assert re.match(r"11\d more reasons, \d+\.\d\d points, in p1", rest)
    everything = report(*problems, verbose=True)
    assert [f"p{i:02} · f: reason {n}" for i in reversed(range(20)) for n in range(6)] == [
        x for x in everything if " · f: " in x
    ]


def test_what_was_not_attempted_is_one_paragraph():
    missing = Outcome(
        id="t", weight=1, status=Status.NOT_ATTEMPTED, about="G.step", what="not attempted"
    )
    some = problem_result("some", "m", 4, [missing, Outcome(id="u", weight=1, status=PASSED)])
    lines = report(some, problem_result("none", "m", 3, [missing]))
    assert "not attempted, 5.00 points: some (G), none" in lines
    assert not [line for line in lines if line.startswith("  at")]


def test_a_fault_of_ours_comes_first_and_costs_nothing():
    lines = report(
        failed("p", 9, 3),
        failed("q", 1, 1, status=Status.GRADER_ERROR, about="test_0", what="TypeError", rule=""),
    )
    assert lines.index("q · test_0: TypeError") < lines.index("p · f: reason 0")
    assert "  lost       nothing: a fault of ours costs no point (test_0)" in lines


def test_it_says_what_it_ran_in():
    """A line per run whose environment is known, and one more for the state of a GPU."""
    done = problem("p", 5, "cpu", cpu=[PASSED])
    assert "cpu: python 3.11.7 · torch 2.13.0" in report(
        done, environment={"python": "3.11.7", "torch": "2.13.0"}
    )
    runs = [
        msgspec.structs.replace(
            sample_results.GRADER,
            device=device,
            environment={"torch": f"2.13+{device}"},
            readings=seen,
        )
        for device, seen in (("cpu", {}), ("cuda", {"afterwards": "it works"}))
    ]
    lines = report(done, device="cpu+cuda", runs=runs)
    at = lines.index("cpu: torch 2.13+cpu")
    assert ["cuda: torch 2.13+cuda", "gpu: afterwards it works"] == lines[at + 1 : at + 3]
    assert not [line for line in report(done) if line.startswith("cpu")]


def test_a_terminal_gets_a_link_to_the_handout():
    """The link is an OSC 8 sequence on a terminal, and plain text in a pipe."""
    one = sample_results.result(failed("linear", 1, 1))
    link = "https://course.example/handout/07_linear.html#section-7-1"
    screen = Console(file=io.StringIO(), force_terminal=True, width=80, legacy_windows=False)
    for console, expected in [(screen, True), (Console(file=io.StringIO()), False)]:
        text = terminal_report.render(
            Reported(one, sections={"linear": "7.1"}, links={"linear": link}, console=console)
        )
        assert "handout §7.1" in text
        assert expected == (f";{link}\x1b\\" in text)
