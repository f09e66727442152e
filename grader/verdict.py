"""How a test ended, from what it raised, in the words that its student is told.

Nothing raised is a pass. A `Mismatch` and a `StudentFault` are the student's; anything else, a bare `assert` among it, is ours,
because then the test itself is wrong.
"""

import os
import re
from dataclasses import dataclass

from grader.course import Problem
from grader.errors import Raised, Status, StudentFault
from grader.text import printable

MAX_MESSAGE = 1500
MAX_TEXT = 300  # of an exception of the student's code
COLOURS = re.compile(r"\x1b\[[0-9;]*m")


@dataclass(frozen=True)
class Verdict:
    """How one run of a test ended.

    Attributes:
        status: In one word.
        message: What happened, headed by the problem and the function; further lines are facts. Empty for a pass.
        rule: What the test asks for; empty where it was not the rule that broke.
        hint: A question that helps, where the test has one.
        function: The student's function that it is about, where that is known.
    """

    status: Status
    message: str = ""
    rule: str = ""
    hint: str | None = None
    function: str = ""


def verdict_on(error: BaseException | None, problem: Problem, *, test: str, rule: str, asked: str) -> Verdict:
    """The verdict on one run of a test.

    Args:
        error: What it raised, if anything.
        problem: The problem that it belongs to.
        test: Its name.
        rule: The first line of its docstring.
        asked: The function that it called last by its name, or "".
    """
    from tests import expect  # the course's, on sys.path only while it is graded

    if error is None:
        return Verdict(Status.PASSED)
    if isinstance(error, expect.Mismatch):
        text = expect.render(error, problem=problem.id, section=problem.section, private=True)
        return _with_rule(error, Status.FAILED, text, rule, error.hint, error.of)
    if isinstance(error, StudentFault):
        function = _function_of(error, asked)
        return _with_rule(error, error.status, _told(problem, error, function), rule, None, function)
    message = f"{problem.id} · {test}: {_origin(error)}"
    return Verdict(Status.GRADER_ERROR, printable(message, MAX_MESSAGE))


def _with_rule(error: Exception, status: Status, text: str, rule: str, hint: str | None, function: str) -> Verdict:
    """The rule belongs to what the test is about. Where a right call failed that came before, that call is told instead."""
    if call := getattr(error, "right_call", ""):
        text, rule = f"{text}\n  call      a right one: {call}", ""
    return Verdict(status, printable(text, MAX_MESSAGE), rule, hint, function.split(".")[0])


def _function_of(fault: StudentFault, asked: str) -> str:
    """The function of the student's that a fault happened in."""
    return fault.where.rpartition(" in ")[2] if fault.where and " in " in fault.where else asked


def _told(problem: Problem, fault: StudentFault, function: str) -> str:
    """A fault in the student's code as lines of text."""
    what = printable(plain(fault.text), MAX_TEXT)
    if isinstance(fault, Raised):
        what = f"raised {fault.type_name}: {what}"
    if fault.status is Status.NOT_ATTEMPTED:
        what = "not attempted"
    head = f"{problem.id} · {function}: {what}" if function else f"{problem.id}: {what}"
    return head + (f"\n  at        {fault.where}" if fault.where else "")


def plain(text: str) -> str:
    """An exception's text as one line without colours. Of a text of many lines, as torch writes them, the first sentence.

    The rest is advice for somebody at a prompt, such as to load a file with weights_only=False.
    """
    lines = [line.strip() for line in COLOURS.sub("", text).strip().splitlines()]
    lines = [line for line in lines if line]
    if not lines:
        return ""
    several = len(lines) > 1 or len(lines[0]) > MAX_TEXT
    return re.split(r"(?<=[.!?])\s", lines[0])[0] if several else lines[0]


def _origin(error: BaseException) -> str:
    """An unexpected exception and where in our code it came from."""
    traceback = error.__traceback__
    while traceback and traceback.tb_next:
        traceback = traceback.tb_next
    where = f" at {os.path.basename(traceback.tb_frame.f_code.co_filename)}:{traceback.tb_lineno}" if traceback else ""
    return f"{type(error).__name__}: {error}{where}"
