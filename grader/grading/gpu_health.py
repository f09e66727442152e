"""Whether the GPU still works. A broken, full or outdated device is never the student's fault."""

from grader.base.errors import GraderFault, Status
from grader.grading.job import Job
from grader.grading.verdict import Verdict
from grader.sandbox.preflight import check_device

# Outcomes that a broken GPU cannot have caused.
INNOCENT = {Status.PASSED, Status.NOT_ATTEMPTED, Status.POLICY, Status.GRADER_ERROR}


class GpuHealth:
    """The state of the GPU, if one is used.

    Attributes:
        complaint: What is wrong with the GPU; empty as long as it works, and always without a GPU.
    """

    def __init__(self, job: Job) -> None:
        self._sandbox, self._limits = job.sandbox, job.course.limits
        self._is_used = bool(job.here)
        self.complaint = ""

    def look(self) -> None:
        """Run a process without student code on the GPU, and record what fails."""
        try:
            if self._sandbox.gpu and self._is_used:
                check_device(self._sandbox, self._limits)
        except GraderFault as e:
            self.complaint = str(e)

    def may_be_the_reason(self, verdict: Verdict) -> bool:
        """Whether a broken GPU could explain this verdict, so that it must be checked first."""
        return bool(self._sandbox.gpu) and verdict.status not in INNOCENT
