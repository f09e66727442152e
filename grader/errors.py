"""What can go wrong, and whose fault it is.

Exception
├── UsageError             the command cannot be carried out as it was given          exit 2
│   └── SubmissionRefused  the submission is not one that can be graded               exit 2
├── ReleaseRefused         something secret would leave, or a stub has drifted        exit 1
├── GraderFault            ours: it never costs a point                               exit 3
│   ├── CourseFault        the course's own files are wrong                          exit 3
│   └── SandboxUnavailable no isolation on this machine; its text says what mends it  exit 3
└── StudentFault           how a call into the student's code ended without a value
    ├── Raised             an exception; also an instance of the builtin one, so that tests can expect it
    ├── NotAttempted       NotImplementedError: the stub is still there
    ├── Crashed            its process ended or answered with no value
    ├── TimedOut           it took longer than it may
    ├── OutOfMemory        it took more memory than it may
    └── PolicyBroken       it called what the problem asks for
"""

from enum import StrEnum


class Status(StrEnum):
    """How a test, or a problem, ended."""

    PASSED = "passed"
    FAILED = "failed"
    NOT_ATTEMPTED = "not_attempted"
    CRASHED = "crashed"
    TIMEOUT = "timeout"
    MEMORY = "memory"
    POLICY = "policy"
    DEFERRED = "deferred"
    GRADER_ERROR = "grader_error"


class UsageError(Exception):
    """The command cannot be carried out as it was given; the text is one sentence for its user."""


class SubmissionRefused(UsageError):
    """The submission is not one that can be graded; the text says why in one sentence."""


class ReleaseRefused(Exception):
    """A bundle is not written as it is; the text says which lines of which files are the reason."""


class GraderFault(Exception):
    """Something of ours failed. It is reported loudly, and the score that is left is not final."""

    from_grader = True


class CourseFault(GraderFault):
    """The files of the course are not as they have to be; the text says which line of which file, and what was expected."""


class SandboxUnavailable(GraderFault):
    """This machine cannot isolate a submission; the text ends with what mends it."""


class StudentFault(Exception):
    """How a call into the student's code ended without a value.

    Args:
        text: What happened, for the student to read.
        where: Where in their code, as in `assignment/linear.py:12 in forward`, or None.
    """

    status: Status = Status.FAILED
    from_student = False

    def __init__(self, text: str, where: str | None = None) -> None:
        super().__init__(text)
        self.text = text
        self.where = where

    def __str__(self) -> str:
        return self.text


class Raised(StudentFault):
    """The student's code raised an exception. `type_name` is the name of its type."""

    from_student = True
    type_name = "Exception"


class NotAttempted(StudentFault, NotImplementedError):
    """The stub is still there."""

    status = Status.NOT_ATTEMPTED


class Crashed(StudentFault):
    """The student's process ended before it answered, or broke a limit other than time and memory."""

    status = Status.CRASHED


class TimedOut(StudentFault):
    """The student's code took longer than a test, or a submission, may."""

    status = Status.TIMEOUT


class OutOfMemory(StudentFault):
    """The student's code took more memory than a test may."""

    status = Status.MEMORY


class PolicyBroken(StudentFault):
    """The student's code called what the problem asks for."""

    status = Status.POLICY


# The exceptions that a test may expect of a student's code, most special first.
EXPECTABLE: tuple[type[Exception], ...] = (
    FileNotFoundError, PermissionError, FloatingPointError, ZeroDivisionError, OverflowError, IndexError, KeyError,
    ValueError, TypeError, AttributeError, RuntimeError, OSError, ImportError, AssertionError, LookupError, ArithmeticError,
)  # fmt: skip


def raised(kinds: list[str], type_name: str, text: str, where: str | None) -> Raised:
    """The exception that stands for one raised by the student's code, as an instance of the builtin type it was.

    Args:
        kinds: The names of the builtin types that it was an instance of.
        type_name: The name of its own type.
        text: Its text.
        where: Where it was raised.
    """
    base = next((e for e in EXPECTABLE if e.__name__ in kinds), None)
    error = _raised_type(base)(text, where)
    error.type_name = type_name
    return error


def _raised_type(base: type[Exception] | None) -> type[Raised]:
    return type(f"Raised{base.__name__}", (Raised, base), {}) if base else Raised
