"""Everything that a result depends on besides the submission: suite, program, torch and options.

Only results with the same setup can be compared, so a gradebook never mixes setups; `switching`
says how another setup comes to count.
"""

import hashlib
import importlib.metadata
import platform
from pathlib import Path

import msgspec
from packaging.requirements import Requirement

import kit
from grader import __version__
from grader.course.courses import PACKAGE, Course, Problem
from grader.sandbox.levels import Isolation

# The parts of the grader that decide a score; a test compares them with the imports of
# `grading.grade`.
DECIDES = (
    "base/errors.py", "base/judging_time.py", "course/courses.py", "course/problems.py", "grading",
    "results", "sandbox", "submission", "tools", "wire", "worker",
)  # fmt: skip


# The fields that a CPU run and a CUDA run must have in common, to be merged.
SHARED = ("suite_sha256", "version", "seed")


class Setup(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that a result depends on besides the submission."""

    device: str  # "cpu" or "cuda"; "cpu+cuda" for the merged results of two setups
    suite_sha256: str  # the hash of the tests and of problems.toml, limits included
    program_sha256: str  # the hash of the part of the grader that decides a score
    version: str  # the grader's version
    torch: str  # the version of torch; empty if the course does not use it
    python: str  # the version of Python
    isolation: Isolation  # what isolates a submission
    seed: int  # the seed of the tests' inputs
    problems: list[str]  # the problems that are graded
    with_cuda: str = ""  # the hash of the CUDA run's setup, for merged results
    packages: str = ""  # the other packages of the course, each with its version
    students: list[str] = []  # the only students who were graded; empty for all
    rest: str = ""  # the hash of the setup whose results all others keep, if there is one

    @property
    def sha256(self) -> str:
        """A hash of all attributes; that of most setups is as before there were parts."""
        facts = msgspec.to_builtins(self)
        of_parts = {name: facts.pop(name) for name in ("students", "rest")}
        known = facts | {name: value for name, value in of_parts.items() if value}
        return hashlib.sha256(msgspec.json.encode(known)).hexdigest()

    @property
    def of_all(self) -> "Setup":
        """The setup with which the next submissions are graded."""
        return msgspec.structs.replace(self, students=[], rest="")

    @property
    def is_part(self) -> bool:
        """Whether it has results of some students only, so that it never counts by itself."""
        return bool(self.students) and not self.rest


def of_today(
    course: Course, problems: list[Problem], *, device: str, isolation: Isolation, seed: int
) -> Setup:
    """The setup of a run that starts now."""
    names = [Requirement(package).name for package in course.packages]
    versions = {name: importlib.metadata.version(name) for name in names}
    return Setup(
        device=device,
        suite_sha256=course.suite_sha256(),
        program_sha256=program_sha256(),
        version=__version__,
        torch=versions.pop("torch", ""),
        packages=" ".join(f"{name} {version}" for name, version in versions.items()),
        python=platform.python_version(),
        isolation=isolation,
        seed=seed,
        problems=[problem.id for problem in problems],
    )


def belong_together(one: Setup, other: Setup) -> bool:
    """Whether the results of two devices can be merged."""
    same = all(getattr(one, field) == getattr(other, field) for field in SHARED)
    return same and not one.is_part and not other.is_part


def differences(old: Setup, new: Setup, *, then: str = "now") -> list[str]:
    """The differences between two setups, one line each, for people.

    Args:
        old: The first setup.
        new: The second setup.
        then: The word before the second setup's value: when or where it applies.
    """
    names = {
        "suite_sha256": "the suite",
        "program_sha256": "the grader's program",
        "version": "the grader's version",
        "torch": "torch",
        "packages": "the packages",
        "python": "Python",
        "isolation": "the isolation",
        "seed": "the seed",
        "device": "the device",
        "problems": "the problems",
        "students": "the students who were graded again",
    }
    found = []
    for field, name in names.items():
        was, now = getattr(old, field), getattr(new, field)
        if was != now:
            found.append(f"{name}: {_short(was)}, {then} {_short(now)}")
    return found


def _short(value: object) -> str:
    if isinstance(value, list):
        return ", ".join(value) if len(value) <= 3 else f"{len(value)} of them"
    text = str(value)
    return text[:12] if len(text) == 64 else text[:60]  # a hash is long and says nothing


def program_sha256() -> str:
    """A hash of the part of the grader that decides a score."""
    digest = hashlib.sha256()
    for path in _files():
        content = path.read_bytes()
        digest.update(f"{path.relative_to(PACKAGE.parent)} {len(content)}\n".encode() + content)
    return digest.hexdigest()


def _files() -> list[Path]:
    found = sorted(kit.HERE.rglob("*.py"))
    for name in DECIDES:
        path = PACKAGE / name
        found += sorted(path.rglob("*.py")) if path.is_dir() else [path]
    return found
