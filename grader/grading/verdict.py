"""Turn the exception that a test raised into the outcome that the student reads.

A test that raises no exception has passed. A `Mismatch` or a `StudentFault` is the student's fault.
Any other exception, including that of a bare `assert`, is the grader's fault, because then the test
itself is wrong.
"""

import os
import re
import sys
from collections.abc import Sequence

from packaging.requirements import Requirement

from grader.base.errors import Raised, Status, StudentFault
from grader.results.result_records import Fact, Outcome
from kit import expect
from kit.safe_text import one_line, printable, worth_a_look

MAX_WHAT = 1500  # characters of what happened
MAX_TEXT = 300  # of an exception of the student's code
MAX_FACT = 500
PYTHON = Fact("grader has", f"Python {sys.version_info[0]}.{sys.version_info[1]}")
OF_A_LIBRARY = re.compile(r"module '(?!assignment\b)[\w.]+' has no attribute")
COLOURS = re.compile(r"\x1b\[[0-9;]*m")


def verdict_on(
    error: BaseException | None, *, test: str, rule: str, asked: str, packages: Sequence[str] = ()
) -> Outcome:
    """How one run of a test ended.

    Args:
        error: The exception that the run raised, if any.
        test: The name of the test.
        rule: The first paragraph of the test's docstring.
        asked: The function that the test last called by its name, or "".
        packages: The packages that a submission may import.
    """
    if error is None:
        return Outcome(status=Status.PASSED)
    if isinstance(error, expect.Mismatch):
        facts = [Fact(label, one_line(text, MAX_FACT)) for label, text in error.facts]
        return _with_rule(error, Status.FAILED, error.reason, error.of, facts, rule, error.hint)
    if isinstance(error, StudentFault):
        where = error.where or ""
        about = where.rpartition(" in ")[2] if " in " in where else asked
        facts = [*_place(error), *_importable(error, packages)]
        said = f"{error.type_name}: {error.text}" if isinstance(error, Raised) else ""
        hint = worth_a_look(said) or None
        return _with_rule(error, error.status, _happened(error), about, facts, rule, hint)
    return our_fault(test, origin(error))


def our_fault(test: str, text: str) -> Outcome:
    """A fault of the grader, which costs nobody a point."""
    return Outcome(status=Status.GRADER_ERROR, what=one_line(text, MAX_WHAT), about=test)


def _with_rule(
    error: Exception,
    status: Status,
    what: str,
    about: str,
    facts: Sequence[Fact],
    rule: str,
    hint: str | None,
) -> Outcome:
    """Add the rule of the test.

    The rule applies to the call that the test is about. If a valid call before it failed, name that
    call instead.
    """
    if call := getattr(error, "right_call", ""):
        facts, rule = [*facts, Fact("call", one_line(f"a valid one: {call}", MAX_FACT))], ""
    return Outcome(
        status=status,
        what=one_line(what, MAX_WHAT),
        about=one_line(about, MAX_FACT),
        facts=list(facts),
        rule=rule,
        hint=hint,
    )


def _place(fault: StudentFault) -> list[Fact]:
    return [Fact("at", one_line(fault.where, MAX_FACT))] if fault.where else []


def _importable(fault: StudentFault, packages: Sequence[str]) -> list[Fact]:
    """What a submission may import, if an import failed, and the Python that it runs in."""
    if not isinstance(fault, Raised):
        return []
    names = ", ".join(Requirement(package).name for package in packages)
    may = f"the standard library, {names}; its own modules as in `from assignment import data`"
    if fault.type_name == "ModuleNotFoundError":
        return [Fact("may import", may), PYTHON]
    is_missing = fault.type_name == "ImportError" or OF_A_LIBRARY.match(fault.text)
    return [PYTHON] if is_missing else []


def _happened(fault: StudentFault) -> str:
    """A fault in the student's code, in one line."""
    if fault.status is Status.NOT_ATTEMPTED:
        return "not attempted"
    what = printable(plain(fault.text), MAX_TEXT) or "without a message"
    return f"raised {fault.type_name}: {what}" if isinstance(fault, Raised) else what


def plain(text: str) -> str:
    """An exception's text as one line without colours.

    Of several lines, keep the first sentence and the cause: the second line after a colon, else the
    last line before an empty one. The rest is values, and advice for an interactive user, such as
    to load a file with weights_only=False.
    """
    lines = [line.strip() for line in COLOURS.sub("", text).strip().splitlines()]
    if not lines:
        return ""
    paragraph = [*lines, ""][: [*lines, ""].index("")]
    first = _sentence(lines[0]) if len(lines) > 1 or len(lines[0]) > MAX_TEXT else lines[0]
    if len(paragraph) < 2:
        return first
    cause = _sentence(paragraph[1] if first.endswith(":") else paragraph[-1])
    return f"{first[: MAX_TEXT // 2]} {cause}"


def _sentence(line: str) -> str:
    """The first sentence of a line; three dots, as in a pattern of einops, and e.g. end none."""
    return re.split(r"(?<=[.!?])(?<!\be\.g\.)\s+(?=[A-Z])", line)[0]


def origin(error: BaseException) -> str:
    """An unexpected exception and the place in our code where it was raised."""
    traceback = error.__traceback__
    while traceback and traceback.tb_next:
        traceback = traceback.tb_next
    where = (
        f" at {os.path.basename(traceback.tb_frame.f_code.co_filename)}:{traceback.tb_lineno}"
        if traceback
        else ""
    )
    return f"{type(error).__name__}: {error}{where}"
