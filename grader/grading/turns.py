"""One side's process in a measurement of speed; see kit/speed.py."""

from collections.abc import Callable
from typing import Any

from grader.base.errors import GraderFault, StudentFault
from grader.grading.job import Job
from grader.grading.local_student import LocalSession
from grader.grading.sessions import Calls, Opens
from grader.sandbox.box import Sandbox
from grader.sandbox.session import Session


def opens_ours(job: Job) -> Opens:
    """What opens the calls to our own solution where the job's submission runs."""
    return Session if isinstance(job.sandbox, Sandbox) else LocalSession


class SessionTurn:
    """A session for one side.

    Attributes:
        is_timed: Whether its times mean anything, which they do in a process of its own.
    """

    def __init__(self, session: Calls, *, seed: int, is_timed: bool) -> None:
        self._session, self.is_timed = session, is_timed
        session.begin_test(seed)

    def run(self, probe: Callable[..., Any], **inputs: Any) -> Any:
        """Return what a probe returns there.

        Raises:
            StudentFault: The call ended without a value.
            GraderFault: The sandbox failed.
        """
        value = self._session.run(probe, inputs)
        self._session.forget_answers()
        return value

    def close(self) -> None:
        """End the process."""
        self._session.close()


class ReferenceTurn(SessionTurn):
    """A session for the reference, whose faults are ours."""

    def run(self, probe: Callable[..., Any], **inputs: Any) -> Any:
        """Return what a probe returns there.

        Raises:
            GraderFault: The call ended without a value, or the sandbox failed.
        """
        try:
            return super().run(probe, **inputs)
        except StudentFault as e:
            raise GraderFault(f"the reference of a test of speed failed: {e}") from e
