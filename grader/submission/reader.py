"""Read submissions in a process of its own, with limits on its time and memory.

Whatever a stranger's archive or notebook does to the program that reads it, it costs that one
submission.
"""

from collections.abc import Mapping
from pathlib import Path

from grader.base.errors import GraderFault, SubmissionRefused
from grader.base.limited_reading import LimitedReader
from grader.submission import submissions
from grader.submission.submissions import HOW_TO_HAND_IN, Submission
from kit.handing_in import EVERY_COURSE, Accepted

CPU_SECONDS = 10  # the slowest archives and notebooks within the other limits take about 2
MEMORY_BYTES = 512 * 2**20  # the largest within the limits take half of it
WAIT_SECONDS = 60  # of an ordinary clock
Request = tuple[Path, Accepted, Mapping[str, Path], bool]


class SubmissionReader(LimitedReader[Request, Submission | str]):
    """Reads submissions one after the other; use it in a `with` block."""

    def __init__(self) -> None:
        super().__init__(
            read,
            seconds=CPU_SECONDS,
            memory_bytes=MEMORY_BYTES,
            wait_seconds=WAIT_SECONDS,
            kind=Submission | str,
        )

    def read(
        self,
        path: Path,
        accepted: Accepted = EVERY_COURSE,
        *,
        parts: Mapping[str, Path] | None = None,
        follow: bool = True,
    ) -> Submission:
        """Read a submission, as `submissions.read` does.

        Raises:
            SubmissionRefused: It cannot be graded, or reading it exceeds a limit; the text says
                why.
            GraderFault: It could not be read, through no fault of the student.
        """
        found = self.found_in((path, accepted, dict(parts or {}), follow))
        if isinstance(found, Submission):
            return found
        if isinstance(found, str):
            raise SubmissionRefused(found)
        if found.is_limit:
            raise SubmissionRefused(f"reading the submission {found.reason}; {HOW_TO_HAND_IN}")
        raise GraderFault(f"the submission {found.reason}")


def read(request: Request) -> Submission | str:
    """In the process of its own: a submission, or why it is refused."""
    path, accepted, parts, follow = request
    try:
        return submissions.read(path, accepted, parts=parts, follow=follow)
    except SubmissionRefused as e:  # whose text may quote a path that is not UTF-8
        return str(e).encode(errors="backslashreplace").decode()
