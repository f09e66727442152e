"""The zip for Gradescope, or for any container that is run once per submission.

It contains setup.sh and run_autograder, the grader's program, and the course with its hidden tests
and solutions. Upload it only as an autograder: a student must never get it.
"""

import importlib.metadata
from collections.abc import Iterable
from pathlib import Path

from packaging.requirements import Requirement

from grader.base.errors import UsageError
from grader.course.courses import LEFT_OVER, PACKAGE, Course
from grader.publish.student_bundle import kit_files

PROJECT = "resource-accounting-assignment"
EXTRA = "grader"
SCRIPTS = ("setup.sh", "run_autograder")
# Parts of the grader's folder that belong to its built-in course, or are not needed.
NOT_THE_PROGRAM = (
    "course_files", "new_course", "publish/bundle", "solutions/reference", "solutions/mutants.toml",
)  # fmt: skip
OF_THE_COURSE = (
    "assignment/**/*", "handout/*.md", "policy.toml", "tests/*.py", "tests/hidden/**/*",
    "tests/probes/**/*", "tests/public/**/*",
)  # fmt: skip
OF_THE_SOLUTIONS = ("reference/**/*",)


def bundle(course: Course, *, wheels: Path | None = None, index_url: str = "") -> dict[str, bytes]:
    """The files of the zip, by their path in it.

    Args:
        wheels: A folder of wheels for installing without a network; None for pip's usual index.
        index_url: An additional index to install from, such as torch's index for CPUs.

    Raises:
        UsageError: The folder has no wheels, or a package is not installed on this machine.
    """
    files = {
        name: (Path(__file__).parent / "bundle/gradescope" / name).read_bytes() for name in SCRIPTS
    }
    files["requirements.txt"] = requirements(course).encode()
    files |= _in("grader", PACKAGE, ["**/*"], without=NOT_THE_PROGRAM)
    files |= kit_files()
    right = [path.relative_to(course.root).as_posix() for path in course.hidden.glob("*/right.py")]
    files |= _in("course", course.root, OF_THE_COURSE, without=right)
    files |= _in("course/solutions", course.solutions, OF_THE_SOLUTIONS)
    if index_url:
        files["index_url"] = f"{index_url}\n".encode()
    if wheels is not None:
        found = {f"wheels/{path.name}": path.read_bytes() for path in wheels.glob("*.whl")}
        if not found:
            raise UsageError(
                f"--wheels {wheels}: expected a folder of wheels, which `pip download` fills, "
                "found none"
            )
        files |= found
    return files


def requirements(course: Course) -> str:
    """The packages that grading and the course need, at the versions installed on this machine.

    So Gradescope grades with the versions that were validated. A local part of a version, such as
    +cpu, is left out, because it names a build that the usual index does not have.

    Raises:
        UsageError: One of the packages is not installed.
    """
    lines = []
    for text in [*(importlib.metadata.requires(PROJECT) or []), *course.packages]:
        needed = Requirement(text)
        if needed.marker is None or needed.marker.evaluate({"extra": EXTRA}):
            try:
                version = importlib.metadata.version(needed.name).partition("+")[0]
            except importlib.metadata.PackageNotFoundError:
                raise UsageError(f"{needed.name} is not installed on this machine") from None
            lines.append(f"{needed.name}=={version}\n")
    return "".join(sorted(set(lines)))


def _in(
    place: str, folder: Path, patterns: Iterable[str], *, without: Iterable[str] = ()
) -> dict[str, bytes]:
    """The files of a folder that match a pattern, except caches and the folders in `without`."""
    found = {}
    for path in sorted({path for pattern in patterns for path in folder.glob(pattern)}):
        name = path.relative_to(folder)
        left_out = any(name.is_relative_to(other) for other in without)
        if path.is_file() and not left_out and not LEFT_OVER & set(name.parts):
            found[f"{place}/{name.as_posix()}"] = path.read_bytes()
    return found
