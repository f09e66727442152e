"""What every course and every student has: the tools of tests, and the student's own command.

A course's tests import `expect`; the pytest plugin `fixtures` gives them their `student`. The
modules in IN_THE_BOX also run in the student's process, so they contain nothing of a test.
"""

import re
from pathlib import Path

HERE = Path(__file__).parent
OLDEST_PYTHON = (3, 11)  # that the course can be graded with
# The packages that a submission may import if problems.toml names none.
USUAL_PACKAGES = ("torch", "numpy", "einops", "jaxtyping")
# The limits of a test that problems.toml does not name.
USUAL_LIMITS = {
    "wall_seconds": 40.0,
    "cpu_seconds": 10,
    "memory_bytes": 2 * 2**30,
    "device_memory_bytes": 4 * 2**30,
    "processes": 32,
    "file_bytes": 64 * 2**20,
    "submission_seconds": 60.0,  # for all tests of a submission together
}
# The modules that the process of a student's code may read.
IN_THE_BOX = (
    "__init__", "student", "student_programs", "forbidden_in_source", "gpu_stand_in",
    "loaded_libraries",
)  # fmt: skip
# Those of them that cannot be imported without torch.
NEED_TORCH = ("kit.gpu_stand_in",)


def name_of(requirement: str) -> str:
    """The package of a requirement such as `torch>=2.6`."""
    return re.split(r"[^\w.-]", requirement)[0]


def files_in_the_box() -> list[Path]:
    """The files of the modules that the process of a student's code may read."""
    return [HERE / f"{name}.py" for name in IN_THE_BOX]
