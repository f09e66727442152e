"""A result with every way in which a test can end, and texts that try to break a report."""

from datetime import UTC, datetime

from grader.base.errors import Status
from grader.classroom.class_records import Standing, State, Student
from grader.report.gradebook_notes import Comment, Override
from grader.results.points import problem_result, submission_result
from grader.results.result_records import Fact, GraderInfo, Outcome, SubmissionInfo

GRADER = GraderInfo(
    version="1.2.3", suite_sha256="cd" * 32, device="cpu", isolation="bubblewrap", seed=7
)
STUDENT = Student(id="ada", name="Ada Lovelace")
# The texts that every format is tested with: for terminals, HTML, Markdown, spreadsheets and
# GitHub's workflow commands.
HOSTILE = (
    "\x1b]0;title\x07\x1b[31mred",
    "\u202egnp.exe\u2066",
    "first\nsecond\r\nthird",
    "]]> <![CDATA[ &amp; <!-- x -->",
    "\x00\x0b\ufffe\uffff\ud800",
    "<img src=x onerror=alert(1)> <script>alert(1)</script>",
    "@torvalds #12 GH-12 octocat/hello#3 a@b.org https://evil.example www.evil.example",
    "` `` ``` ```` `````",
    "```\n# heading\n- item",
    "a | b \\| c \\\\| d",
    "**bold** _em_ ~~gone~~ [link](https://evil.example) ![i](http://evil.example) [^1] $x$",
    "\"quoted\" 'quoted' \\",
    "=HYPERLINK(1)",
    "   ",
    "é" * 5_000,
    '=HYPERLINK("http://evil.example","click")',
    "+1+cmd|' /C calc'!A0",
    "-2+3",
    "@SUM(A1)",
    "\t=1+1",
    "\r=1+1",
    "\n =1+1",
    "\u00a0=1+1",
    "\uff1d1+1",
    "'=1+1",
    "''@x",
    "'quoted'",
    'a,b;c"d"',
    "first\r\nsecond\nthird\u2028fourth",
    "::error file=x.py,line=1::forged",
    "\n::stop-commands::quiet\n::add-mask::0",
    "##[error]forged ##[add-mask]0",
    "100%, 50%25, %0A::error::forged %0D%3A%2C",
    "a.py,line=1,title=b::c",
)
# Characters of these texts that Python does not call printable and that have no effect anywhere.
HARMLESS = "\u00a0\ufffe\uffff"


def ended(name, status, **given):
    return Outcome(**{"id": f"test_{name}", "weight": 1, "status": status, "seconds": 0.25} | given)


def result(*problems, name="ada", seconds=12.345):
    submission = SubmissionInfo(name=name, sha256="ab" * 32, files=[], ignored=[])
    return submission_result(submission, GRADER, list(problems), seconds=seconds)


def failed(name, what, **given):
    """A failed test with facts, a rule and a hint."""
    told = {
        "about": "forward",
        "what": what,
        "facts": [Fact("expected", "0.5 at [0, 2]"), Fact("got", "0.25")],
        "rule": "The output is x times the transposed weight.",
        "hint": "Is the weight transposed?",
    }
    return ended(name, Status.FAILED, **told | given)


def every_status(*, grader_error=False):
    """A result in which tests end in every way; a fault of the grader only if asked for."""
    mine = [ended("error", Status.GRADER_ERROR, about="test_error", what="ZeroDivisionError: oops")]
    linear = [
        ended("a", Status.PASSED),
        failed("b", "wrong values"),
        failed("c", "wrong values", rule="Another rule."),
        ended("d", Status.CRASHED, about="forward", what="the process ended: signal 11"),
        ended("e", Status.PASSED),
        ended("f", Status.TIMEOUT, about="forward", what="it took longer than 10 s"),
        *(mine if grader_error else []),
    ]
    adamw = [
        ended("g", Status.MEMORY, about="step", what="it needed more than 1 GiB"),
        ended("h", Status.POLICY, about="step", what="uses torch.optim"),
        ended("i", Status.NOT_ATTEMPTED, about="step", what="is not attempted"),
    ]
    return result(
        problem_result("linear", "m", 10, linear),
        problem_result("adamw", "m", 5, adamw),
        problem_result("gpu", "m", 4, [ended("j", Status.DEFERRED, device="cuda")], "cuda"),
    )


def hostile():
    """A result in which every text that the student's code can choose is hostile."""
    tests = []
    for place, text in enumerate(HOSTILE):
        told = {"about": text, "facts": [Fact(text, text)], "rule": text, "hint": text}
        tests.append(failed(f"t{place}", text, mistake=text if place % 2 else "", **told))
    problems = [
        problem_result(f"p{place} {text}"[:300], "m", 1, tests)
        for place, text in enumerate(HOSTILE[:3])
    ]
    return result(*problems, name=" ".join(HOSTILE))


def standing(**given):
    return Standing(
        **{"student": STUDENT, "state": State.GRADED, "max_score": 15.0, "score": 3.0} | given
    )


def hostile_comments():
    """A comment with each hostile text, about a problem of that name."""
    return [Comment(id=1, problem=text, text=text, attempt=1) for text in HOSTILE]


def override(points, *, problem="", reason="regraded by hand"):
    at = datetime(2025, 3, 4, 5, 6, 7, tzinfo=UTC)
    return Override(problem=problem, points=points, who="prof", reason=reason, at=at)
