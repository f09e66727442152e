"""What can go wrong, and whose fault it is.

Exception
├── EndsCommand            the command ends with its exit code
│   ├── UsageError             the command cannot be carried out as given                exit 2
│   │   └── SubmissionRefused  the submission cannot be graded                           exit 2
│   ├── ReleaseRefused         a secret would be published, or a stub has drifted        exit 1
│   └── GraderFault            a fault of the grader, which never costs a point          exit 3
│       ├── CourseFault        the course's own files are wrong                          exit 3
│       ├── MachineFault       a full disk, a read-only file or folder, a locked file    exit 3
│       └── SandboxUnavailable no isolation on this machine; the text says how to fix it exit 3
└── StudentFault           how a call into the student's code ended without a value
    ├── Raised             an exception; also an instance of its builtin type, as tests expect
    ├── NotAttempted       NotImplementedError: the stub is still there
    ├── Crashed            the student's process ended or sent no valid answer
    ├── TimedOut           the time limit was exceeded
    ├── OutOfMemory        the memory limit was exceeded
    └── PolicyBroken       it called the library function it was asked to implement
"""

import difflib
from collections.abc import Iterable
from enum import StrEnum


class Status(StrEnum):
    """How a test or a problem ended."""

    PASSED = "passed"
    FAILED = "failed"
    NOT_ATTEMPTED = "not_attempted"
    CRASHED = "crashed"
    TIMEOUT = "timeout"
    MEMORY = "memory"
    POLICY = "policy"
    DEFERRED = "deferred"
    GRADER_ERROR = "grader_error"

    @property
    def words(self) -> str:
        """The status in words, for people."""
        return self.value.replace("_", " ")


class EndsCommand(Exception):
    """What ends a command.

    Attributes:
        exit_code: The exit code of the command.
        opening: What the command prints before the text.
        several_lines: Whether the text may have several lines. It then quotes the course's staff;
            any other text may quote a stranger, and is printed as one line.
    """

    exit_code = 3
    opening = ""
    several_lines = False


class UsageError(EndsCommand):
    """The command cannot be carried out as given; the text tells the user why in one sentence."""

    exit_code = 2


class SubmissionRefused(UsageError):
    """The submission cannot be graded; the text says why in one sentence."""


class ReleaseRefused(EndsCommand):
    """A bundle must not be written as it is; the text names the files and lines that prevent it."""

    exit_code = 1
    opening = "nothing was written: "
    several_lines = True


class GraderFault(EndsCommand):
    """A fault of the grader. It is reported prominently, and the remaining score is not final."""

    opening = "this is a fault of the grader or of this machine: "
    from_grader = True


class CourseFault(GraderFault):
    """The course's files are wrong; the text gives the file, the line and what was expected."""

    opening = "this is a fault of the course, not of a submission: "
    several_lines = True


class MachineFault(GraderFault):
    """This machine cannot write a file now; the same command may succeed later, or elsewhere."""

    opening = "this machine cannot do this now: "


class SandboxUnavailable(GraderFault):
    """This machine cannot isolate a submission; the text ends with the fix."""

    opening = "this machine cannot isolate submissions: "
    several_lines = True


class StudentFault(Exception):
    """How a call into the student's code ended without a value.

    Args:
        text: What happened, for the student to read.
        where: The place in the student's code, as in `assignment/linear.py:12 in forward`, or None.
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
    """The student's code raised an exception, which has only names here.

    Args:
        kinds: The names of the builtin types that the exception was an instance of.
        type_name: The name of the exception's own type.
        text: The exception's message.
        where: Where the exception was raised.
    """

    from_student = True

    def __init__(self, kinds: Iterable[str], type_name: str, text: str, where: str | None) -> None:
        super().__init__(text, where)
        self.kinds, self.type_name = tuple(kinds), type_name


class NotAttempted(StudentFault, NotImplementedError):
    """The stub is still there.

    Args:
        text: What happened, for the student to read.
        where: The place of the stub.
        is_direct: Whether the test called the stub itself, and not other code of the student's.
    """

    status = Status.NOT_ATTEMPTED

    def __init__(self, text: str, where: str | None = None, *, is_direct: bool = False) -> None:
        super().__init__(text, where)
        self.is_direct = is_direct


class Crashed(StudentFault):
    """The student's process ended before it answered, or exceeded a limit on files or processes."""

    status = Status.CRASHED


class TimedOut(StudentFault):
    """The student's code exceeded the time limit of a test or of the submission."""

    status = Status.TIMEOUT


class OutOfMemory(StudentFault):
    """The student's code exceeded a test's memory limit."""

    status = Status.MEMORY


class PolicyBroken(StudentFault):
    """The student's code called the library function it was asked to implement."""

    status = Status.POLICY


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """The end of a sentence, as in `; did you mean adamw?`; empty if no name is near."""
    near = difflib.get_close_matches(name, list(known), 1)
    return f"; did you mean {near[0]}?" if near else ""


def no_such(kind: str, name: str, known: Iterable[str]) -> str:
    """Say that there is no problem, test or comment of a name, and what there is."""
    names = list(known)
    are = "is" if len(names) == 1 else "are"
    listed = ", ".join(names) or "none"
    if not (meant := did_you_mean(name, names)):
        return f"no such {kind}; there {are} {listed}"
    return f"no such {kind}{meant}" + (f" There {are} {listed}" if names[1:] else "")
