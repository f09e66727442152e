"""Whether the GPU still works: a broken, full or too old device is never the student's fault."""

from grader.errors import GraderFault, Status
from grader.grading.job import Job
from grader.grading.verdict import Verdict
from grader.sandbox.preflight import check_device

INNOCENT = {
    Status.PASSED,
    Status.NOT_ATTEMPTED,
    Status.POLICY,
    Status.GRADER_ERROR,
}  # of which a broken GPU is no reason


class GpuHealth:
    """What is wrong with the GPU, from the moment that it is. Without a GPU, nothing ever is."""

    def __init__(self, job: Job) -> None:
        self._sandbox, self._limits = job.sandbox, job.course.limits
        self._is_used = bool(job.here)
        self.complaint = ""

    def look(self) -> None:
        """Have the GPU used by a process without a student's code."""
        try:
            if self._sandbox.gpu and self._is_used:
                check_device(self._sandbox, self._limits)
        except GraderFault as e:
            self.complaint = str(e)

    def may_be_the_reason(self, verdict: Verdict) -> bool:
        """Whether such a verdict needs a look before it is believed."""
        return bool(self._sandbox.gpu) and verdict.status not in INNOCENT
