"""Whether the GPU works in the sandbox: asked before a student is judged on it, and again where a test on it did not pass.

A device that is broken, full or wrongly installed must never cost a student anything. So a process of its own, which holds no
code of theirs, uses it as a test would; whatever goes wrong there is a fault of this machine.
"""

from typing import TypedDict

import msgspec

from grader.course import Limits
from grader.errors import GraderFault, StudentFault
from grader.sandbox.box import Sandbox
from grader.sandbox.client import Session

SECONDS = 60


class Device(TypedDict):
    """What a working GPU is, by torch's words."""

    name: str
    capability: str
    cuda: str
    total_bytes: int
    free_bytes: int
    computes: bool


def check_device(sandbox: Sandbox, limits: Limits) -> Device:
    """Use the GPU once.

    Args:
        sandbox: Whose box it has to work in.
        limits: A test's; as much of the GPU has to be free.

    Raises:
        GraderFault: It cannot be used, with the reason.
    """
    roomy = msgspec.structs.replace(limits, wall_seconds=float(SECONDS), cpu_seconds=SECONDS)
    session = Session(sandbox, {}, roomy, seed=0, forbidden=[])
    try:
        answer = session.look_at_device()
    except StudentFault as e:  # of a process that has no student's code in it
        raise GraderFault(f"the GPU cannot be used in the sandbox: {e}") from None
    finally:
        session.close()
    return judged(answer, limits.device_memory_bytes)


def judged(answer: Device | str, needed_bytes: int) -> Device:
    """The answer of `worker.device.look`, where it is that of a GPU which a test can use.

    Raises:
        GraderFault: It is not.
    """
    if isinstance(answer, str):
        raise GraderFault(f"the GPU cannot be used in the sandbox: {answer}")
    if not answer["computes"]:
        raise GraderFault(f"the GPU ({answer['name']}) gives a wrong product of two small matrices")
    if answer["free_bytes"] < needed_bytes:
        sizes = (answer["free_bytes"], answer["total_bytes"], needed_bytes)
        free, whole, needed = (f"{size / 2**30:.1f} GiB" for size in sizes)
        hint = "end what else uses it, or lower device_memory_bytes in problems.toml"
        raise GraderFault(f"the GPU ({answer['name']}) has {free} of {whole} free, and a test may take {needed}: {hint}")
    return answer
