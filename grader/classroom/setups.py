"""Everything that a result depends on besides the submission: suite, program, torch and options.

Only results with the same setup can be compared, so a gradebook never mixes setups;
`switching_setups` says how another setup comes to count.
"""

import hashlib
import importlib.metadata
import platform
from pathlib import Path

import msgspec
from packaging.requirements import Requirement

import kit
from grader import __version__
from grader.classroom import database
from grader.classroom.merged_students import BookPart
from grader.course.courses import PACKAGE, Course, Problem
from grader.sandbox.levels import Isolation

# The parts of the grader that decide a score; a test compares them with what grading imports.
DECIDES = (
    "base/errors.py", "base/judging_time.py", "course/courses.py", "course/problems_toml.py",
    "grading", "results", "sandbox", "submission", "tools", "wire", "worker",
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
    """The differences between two setups, one line each; `then` says when the second applies."""
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
        return ", ".join(value) or "none" if len(value) <= 3 else f"{len(value)} of them"
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


class StoredSetups(BookPart):
    def number_of(self, setup: Setup) -> int:
        """The number of a setup; a new setup is added."""
        facts = msgspec.json.encode(setup).decode()
        with self._db:
            into = "OR IGNORE INTO setup"
            self._insert(into, sha256=setup.sha256, device=setup.device, facts=facts)
        number = self.find(setup)
        assert number is not None
        return number

    def find(self, setup: Setup) -> int | None:
        """The number of a setup; None if the gradebook does not have it."""
        row = self._db.execute("SELECT id FROM setup WHERE sha256 = ?", (setup.sha256,)).fetchone()
        return row and int(row["id"])

    def get(self, number: int) -> Setup:
        row = self._db.execute("SELECT facts FROM setup WHERE id = ?", (number,)).fetchone()
        return msgspec.json.decode(row["facts"], type=Setup)

    def _steps(self) -> list[dict[str, int]]:
        """The changes of the setups that count, by device, without those that were undone."""
        steps: list[dict[str, int]] = []
        for row in self._db.execute("SELECT device, setup, why FROM applied ORDER BY id"):
            device, setup = row["device"], int(row["setup"])
            before = [n for n, step in enumerate(steps) if device in step or row["why"] != "undo"]
            if row["why"] not in ("undo", "together"):
                steps.append({device: setup})
            elif not before:
                raise database.DamagedBook("the first change of what counts needs another")
            elif row["why"] == "undo":
                del steps[before[-1]]
            else:
                steps[-1][device] = setup
        return steps

    def in_force(self) -> dict[str, int]:
        """The setup that counts on each device, once those of both devices belong together."""
        steps = self._steps()
        for count in range(len(steps), 0, -1):
            found = {device: setup for step in steps[:count] for device, setup in step.items()}
            first, *others = map(self.get, found.values())
            if all(belong_together(first, other) for other in others):
                return found
        return {}

    def current(self, device: str) -> int | None:
        """The number of the setup whose results count on a device; None before the first."""
        return self.in_force().get(device)

    def apply(self, *numbers: int, why: str) -> None:
        """Make the results of setups count from now on, as one step: one setup for each device."""
        with self._db:
            for setup in numbers:
                self._add("applied", device=self.get(setup).device, setup=setup, why=why)
                why = "together"

    def undo(self) -> bool:
        """Make the results before the last step count again; return whether there were any."""
        steps = self._steps()
        if len(steps) < 2:
            return False
        setup = next(iter(steps[-1].values()))
        self.apply(setup, why="undo")
        return True

    def graded(self) -> dict[int, int]:
        """How many sources each setup that has results has graded without a fault."""
        query = "SELECT setup, SUM(fault = '') AS count FROM grade GROUP BY setup ORDER BY setup"
        return {row["setup"]: row["count"] for row in self._db.execute(query)}

    def partner_of(self, setup: Setup) -> int | None:
        """The newest setup with results on the other device that belongs together with this one."""
        devices = {"cpu", "cuda"} - {setup.device}
        for number in reversed(self.graded()):
            other = self.get(number)
            if other.device in devices and belong_together(setup, other):
                return number
        return None

    def under_way(self) -> dict[str, int]:
        """How many sources have a result on each device of which no result counts yet."""
        counting = self.in_force()
        found = {self.get(number).device: count for number, count in self.graded().items() if count}
        return {d: n for d, n in found.items() if d in {"cpu", "cuda"} - counting.keys()}

    def unfinished(self) -> list[tuple[int, int, str]]:
        """The regrades that stopped: the setup that counts, the new one, how much it graded."""
        every = self._db.execute("SELECT COUNT(DISTINCT sources) FROM attempt").fetchone()[0]
        applied = {row["setup"] for row in self._db.execute("SELECT setup FROM applied")}
        newest = {self.get(n).device: n for n in sorted(self.graded().keys() - applied)}
        counting, done = self.in_force(), self.graded()
        found = [(counting.get(device, 0), new) for device, new in newest.items()]
        return [
            (old, new, f"{done[new]} of {every}")
            for old, new in found
            if 0 < old < new and done[new] < every and not self.get(new).is_part
        ]

    def last_other(self, device: str, current: int) -> int | None:
        """The newest setup on a device that has results and is not the current one."""
        found = [n for n in self.graded() if n != current and self.get(n).device == device]
        return found[-1] if found else None

    def before(self, device: str) -> int | None:
        """The setup that counted on a device before the current one; None if there was none."""
        counted = [step[device] for step in self._steps() if device in step]
        return counted[-2] if len(counted) > 1 else None
