"""Check that a test can run in the sandbox at all, before any submission is graded.

A GPU is checked again after each test that did not pass.

A broken, full or wrongly installed device must never cost a student anything, and neither must
limits that are too low for a test. So a process that has run no student code uses the device as a
test would. Whatever goes wrong in that process is a fault of this machine.
"""

from typing import Any, Protocol, TypedDict

import msgspec

from grader.base.errors import GraderFault, StudentFault
from grader.course.courses import Limits

SECONDS = 60
CANNOT_USE_GPU = "the GPU cannot be used in the sandbox"


class GpuFacts(TypedDict):
    """A working GPU, as torch describes it."""

    name: str
    capability: str
    cuda: str
    total_bytes: int
    free_bytes: int
    computes: bool


class Looks(Protocol):
    """A process that has run no student code."""

    def look_at_device(self, name: str) -> Any:
        """Use a device; see `worker.test_process.look_at_device`."""


def check_cpu(session: Looks) -> None:
    """Compute, write a file, start a thread and a process, under the limits of the session.

    Args:
        session: A session in which no student code has run.

    Raises:
        GraderFault: One of these fails; the message gives the reason.
    """
    answer = _look(session, "cpu", "no test can run in the sandbox")
    if isinstance(answer, str) or not answer["computes"]:
        raise GraderFault(f"no test can run in the sandbox: {answer}")


def limits_to_look(limits: Limits) -> Limits:
    """The limits of a process that uses the GPU once, which may be the first to start CUDA."""
    return msgspec.structs.replace(
        limits, wall_seconds=float(SECONDS), cpu_seconds=max(SECONDS, limits.cpu_seconds)
    )


def check_device(session: Looks, needed_bytes: int) -> GpuFacts:
    """Check that a test can use the GPU, by using it once.

    Args:
        session: A session in which no student code has run.
        needed_bytes: How much memory of the GPU a test may use, and so must be free.

    Raises:
        GraderFault: The GPU cannot be used; the message gives the reason.
    """
    return judged(_look(session, "cuda", CANNOT_USE_GPU), needed_bytes)


def _look(session: Looks, device: str, failed: str) -> Any:
    try:
        return session.look_at_device(device)
    except StudentFault as e:  # not the student's fault: the process runs no student code
        raise GraderFault(f"{failed}: {e}") from None


def judged(answer: GpuFacts | str, needed_bytes: int) -> GpuFacts:
    """Return the answer of `look_at_device` if it describes a GPU that a test can use.

    Raises:
        GraderFault: A test cannot use the GPU; the message gives the reason.
    """
    if isinstance(answer, str):
        raise GraderFault(f"{CANNOT_USE_GPU}: {answer}")
    if not answer["computes"]:
        raise GraderFault(f"the GPU ({answer['name']}) gives a wrong product of two small matrices")
    if answer["free_bytes"] < needed_bytes:
        sizes = (answer["free_bytes"], answer["total_bytes"], needed_bytes)
        free, whole, needed = (f"{size / 2**30:.1f} GiB" for size in sizes)
        hint = "stop other programs that use it, or lower device_memory_bytes in problems.toml"
        raise GraderFault(
            f"the GPU ({answer['name']}) has {free} of {whole} free, "
            f"and a test may take {needed}: {hint}"
        )
    return answer
