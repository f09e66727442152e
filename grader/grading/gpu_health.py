"""Whether the GPU still works. A broken, full or outdated device is never the student's fault."""

from contextlib import closing

from grader.base.errors import GraderFault, Status
from grader.grading.grading_job import Job
from grader.results.result_records import Outcome
from grader.sandbox.preflight import check_device, limits_to_look

# Outcomes that a broken GPU cannot have caused.
INNOCENT = {Status.PASSED, Status.NOT_ATTEMPTED, Status.POLICY, Status.GRADER_ERROR}


class GpuHealth:
    """The state of the GPU, if one is used.

    It is checked before the first test of a submission, after each test that did not pass, and
    after the last test. No check is repeated as long as no test has run since. So a submission that
    leaves a broken GPU keeps its points, and the next one is not graded on it.
    """

    def __init__(self, job: Job) -> None:
        self._sandbox, self._open = job.sandbox, job.open_session
        self._limits = job.course.limits
        self._is_used = bool(self._sandbox.gpu and job.here)
        # What runs before the first test is not the student's code.
        self._worked_at_first = self._sandbox.gpu_works
        # What is wrong with the GPU; empty as long as it works, and always without a GPU.
        self.complaint = ""

    def look_at_first(self) -> None:
        """Check the GPU, unless it worked when the last submission ended."""
        if not self._worked_at_first:
            self.look()

    def look(self) -> None:
        """Run a process without student code on the GPU, and record what fails.

        It starts only after the GPU has given back the memory of the test before it.
        """
        try:
            if self._is_used and not self._sandbox.gpu_works:
                roomy = limits_to_look(self._limits)
                with closing(self._open(self._sandbox, {}, roomy)) as session:
                    check_device(session, self._limits.device_memory_bytes)
                self._sandbox.require_free_gpu()
                self._sandbox.gpu_works = True
        except GraderFault as e:
            self.complaint = str(e)

    def described_at_the_end(self) -> dict[str, str]:
        """Whether the GPU works after the last test."""
        if not self._is_used:
            return {}
        if not self.complaint:
            self.look()
        return {"afterwards": self.complaint or "it works"}

    def may_be_the_reason(self, outcome: Outcome) -> bool:
        """Whether a broken GPU could explain this outcome, so that it must be checked first."""
        return bool(self._sandbox.gpu) and outcome.status not in INNOCENT
