"""Whether the GPU still works. A broken, full or outdated device is never the student's fault."""

from contextlib import closing

from grader.base.errors import GraderFault, Status
from grader.grading.job import Job
from grader.grading.verdict import Verdict
from grader.sandbox.preflight import check_device, limits_to_look

# Outcomes that a broken GPU cannot have caused.
INNOCENT = {Status.PASSED, Status.NOT_ATTEMPTED, Status.POLICY, Status.GRADER_ERROR}


class GpuHealth:
    """The state of the GPU, if one is used.

    Attributes:
        complaint: What is wrong with the GPU; empty as long as it works, and always without a GPU.
    """

    def __init__(self, job: Job) -> None:
        self._sandbox, self._open = job.sandbox, job.open_session
        self._limits = job.course.limits
        self._is_used = bool(job.here)
        self.complaint = ""

    def look(self) -> None:
        """Run a process without student code on the GPU, and record what fails."""
        try:
            if self._sandbox.gpu and self._is_used:
                roomy = limits_to_look(self._limits)
                with closing(self._open(self._sandbox, {}, roomy)) as session:
                    check_device(session, self._limits.device_memory_bytes)
        except GraderFault as e:
            self.complaint = str(e)

    def may_be_the_reason(self, verdict: Verdict) -> bool:
        """Whether a broken GPU could explain this verdict, so that it must be checked first."""
        return bool(self._sandbox.gpu) and verdict.status not in INNOCENT
