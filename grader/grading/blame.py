"""Decide whose fault an unexpected exception of a test is: the student's answer or the test.

A test may do anything with an answer before it has judged it: convert it, index it, compute with
it. With a hostile answer each of these can raise an exception or take minutes. No test can foresee
all such answers, so one rule covers them: repeat the test on the reference. If the reference passes
and its answers differ from the student's, the student's answer broke the test, and the test counts
as failed. Otherwise the test itself is wrong, which is a fault of the grader.
"""

import math
import sys
from collections.abc import Callable, Iterable
from contextlib import closing, nullcontext, suppress
from typing import TYPE_CHECKING, Any

from grader.base.errors import GraderFault, StudentFault
from grader.base.judging_time import JudgingTime
from grader.course.courses import Problem, sources_in
from grader.grading.grading_job import Job, Opens
from grader.grading.local_student import LocalSession
from grader.grading.mistake_matching import Call
from grader.grading.same_answers import same
from grader.grading.sandboxed_student import RemoteStudent
from grader.sandbox.sandbox import Sandbox
from grader.sandbox.session import Session
from kit import expect
from kit.loaded_libraries import is_array, is_tensor

if TYPE_CHECKING:
    from torch import Tensor

UNUSABLE = "an unusable answer"
# What the facts say of an answer that cannot even be compared with the reference's.
INCOMPARABLE = ("an answer that can be compared", "another one")
MOST_BITS = 64  # of an int that is described by its type alone

Repeat = Callable[[RemoteStudent], None]


def is_unexpected(error: BaseException | None) -> bool:
    """Whether an exception of a test neither judges an answer nor names a fault of the grader."""
    known = (expect.Mismatch, StudentFault, GraderFault)
    return isinstance(error, Exception) and not isinstance(error, known)


def answer_at_fault(
    job: Job, problem: Problem, student: RemoteStudent, repeat: Repeat, time: JudgingTime
) -> Exception | None:
    """Return the Mismatch for an answer that broke a test; None if the test is to blame.

    `repeat` runs the test again with another student; `time` is for the comparison of two answers.
    """
    if not student.calls:
        return None
    theirs = list(student.calls)
    try:
        ours = _calls_of_reference(job, problem, student.seed, repeat)
    except Exception:
        return None
    for got, expected in zip(theirs, ours, strict=False):
        if found := _difference_between_calls(got, expected, time):
            facts = [("expected", found[0]), ("got", found[1])]
            return expect.Mismatch(student.asked_for, UNUSABLE, facts=facts)
    return None


def _calls_of_reference(job: Job, problem: Problem, seed: int, repeat: Repeat) -> list[Call]:
    """The calls of a test that the reference passes."""
    sources, limits = sources_in(job.course.reference), job.course.limits_of(problem)
    # Our own solution runs where the job's submission runs.
    opens: Opens = Session if isinstance(job.sandbox, Sandbox) else LocalSession
    with closing(opens(job.sandbox, sources, limits)) as session:
        session.begin_test(seed)
        reference = RemoteStudent(session, seed)
        with JudgingTime().limit():
            repeat(reference)
    return reference.calls


def _difference_between_calls(
    got: Call, expected: Call, time: JudgingTime
) -> tuple[str, str] | None:
    """The first difference of two calls as descriptions (expected, got).

    An answer that breaks this comparison differs, because the reference's own does not break it.
    """
    if got.raised != expected.raised:
        return expected.raised or "an answer", got.raised or "an answer"
    with suppress(Exception), time.limit():
        return difference(got.value, expected.value)
    with time.limit():
        difference(expected.value, expected.value)
    return INCOMPARABLE


def difference(got: Any, expected: Any) -> tuple[str, str] | None:
    """The first difference of two answers as descriptions (expected, got), without their values.

    A difference in type, shape, dtype or size comes before a difference in value, because it is
    more likely to be what broke the test.
    """
    numpy = sys.modules.get("numpy")
    with numpy.errstate(all="ignore") if numpy else nullcontext():
        return _in_kind(got, expected, "") or (
            None if same(got, expected) else ("another value", _kind(got))
        )


def _in_kind(got: Any, expected: Any, where: str) -> tuple[str, str] | None:
    kinds = _kind(expected), _kind(got)
    if kinds[0] != kinds[1]:
        return f"{kinds[0]}{where}", kinds[1]
    where = where or " at "
    for place, ours in _inside(expected):
        if found := _in_kind(got[place], ours, f"{where}[{repr(place)[:40]}]"):
            return found
    return None


def _inside(value: Any) -> Iterable[tuple[Any, Any]]:
    """The parts of a value, each with its key or its position."""
    if isinstance(value, dict):
        return value.items()
    return enumerate(value) if isinstance(value, (list, tuple)) else ()


def _kind(value: Any) -> str:
    """A value's type and size, with everything else that could break a test but its value."""
    if is_tensor(value):
        place = "" if value.device.type == "cpu" else f" on {value.device.type}"
        return expect.describe(value) + place + ("" if _is_finite(value) else " with NaN or inf")
    if is_array(value):
        return expect.describe(value)
    if isinstance(value, dict):
        return f"dict with the keys {', '.join(sorted(map(expect.short, value)))}"
    if isinstance(value, (list, tuple, str, bytes)):
        return f"{expect.type_name(value)} of length {len(value)}"
    if type(value) is int and value.bit_length() > MOST_BITS:
        return f"int of {value.bit_length()} bits"
    if type(value) is float and not math.isfinite(value):
        return str(value)
    return expect.type_name(value)


def _is_finite(value: "Tensor") -> bool:
    if value.device.type == "meta" or not (value.is_floating_point() or value.is_complex()):
        return True
    import torch

    x = value.detach()
    # torch has no isfinite for a dtype of one byte; wider copies of all would take much memory.
    return bool(torch.isfinite(x.half() if x.element_size() == 1 else x).all())
