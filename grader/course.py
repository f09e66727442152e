"""The course that is graded: where its files are, its problems, its limits, and the hash of its suite."""

import hashlib
import tomllib
from pathlib import Path

import msgspec

from grader.errors import GraderFault

REFERENCE = Path(__file__).parent / "reference"


class Limits(msgspec.Struct, frozen=True):
    """What one test may use, `device_memory_bytes` of a GPU; `submission_seconds` is for all tests of a submission together."""

    wall_seconds: float
    cpu_seconds: int
    memory_bytes: int
    device_memory_bytes: int
    processes: int
    file_bytes: int
    output_bytes: int
    submission_seconds: float


class Problem(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One entry of problems.toml; see the comment there."""

    id: str
    module: str
    functions: list[str]
    points: int
    section: str
    device: str
    forbidden: list[str]
    forbidden_in: dict[str, list[str]] = {}
    limits: dict[str, int | float] = {}

    @property
    def path(self) -> str:
        """The file of a submission that holds it."""
        return f"assignment/{self.module}.py"

    @property
    def all_forbidden(self) -> list[str]:
        """What its source is searched for: the names that all of it or one of its definitions may not call."""
        return [*self.forbidden, *(name for names in self.forbidden_in.values() for name in names)]

    def forbids(self, name: str, definition: str) -> bool:
        """Whether this problem may not call `name` inside the top-level `definition`."""
        forbidden = [*self.forbidden, *self.forbidden_in.get(definition, [])]
        return any(name == f or name.startswith(f + ".") for f in forbidden)


class Course(msgspec.Struct, frozen=True):
    """The problems and where the files about them are.

    Attributes:
        root: The folder that holds assignment/ and tests/.
        limits: What a test may use where its problem does not say otherwise.
        problems: In the order of the handout.
    """

    root: Path
    limits: Limits
    problems: list[Problem]

    @property
    def tests(self) -> Path:
        """The folder of hidden tests and probes."""
        return self.root / "tests"

    @property
    def modules(self) -> list[str]:
        """The modules of the assignment, each once."""
        return list(dict.fromkeys(problem.module for problem in self.problems))

    def problem(self, problem_id: str) -> Problem:
        """The problem of that id.

        Raises:
            KeyError: There is none.
        """
        return {problem.id: problem for problem in self.problems}[problem_id]

    def limits_of(self, problem: Problem) -> Limits:
        """The limits of a problem's tests."""
        return msgspec.structs.replace(self.limits, **problem.limits)

    def hidden_tests(self, problem: Problem) -> dict[str, Path]:
        """The files of a problem's hidden tests, by the device that they need: of "cpu" and "cuda" those that there are."""
        hidden, name = self.tests / "hidden", f"test_{problem.id}.py"
        files = {"cpu": hidden / name, "cuda": hidden / "cuda" / name}
        return {device: path for device, path in files.items() if path.is_file()}

    def suite_sha256(self) -> str:
        """A hash over everything that decides a score besides the grader itself: tests, probes, problems."""
        files = [self.root / "assignment" / "problems.toml", *sorted(self.tests.glob("*.py"))]
        files += sorted((self.tests / "probes").rglob("*.py")) + sorted((self.tests / "hidden").rglob("*.py"))
        return _sha256({path.relative_to(self.root).as_posix(): path for path in files})

    def handout_sha256(self) -> str:
        """A hash over what the built handout is made from: its folder, problems.toml and the reference."""
        folder, problems = self.root / "handout", self.root / "assignment" / "problems.toml"
        made = {folder / "build", *folder.rglob("__pycache__")}
        files = [problems, *(path for path in folder.rglob("*") if path.is_file() and not made & set(path.parents))]
        named = {path.relative_to(self.root).as_posix(): path for path in files}
        named |= {f"reference/{path.name}": path for path in REFERENCE.glob("*.py")}  # the grader's own, wherever the course is
        return _sha256(dict(sorted(named.items())))


def device_of(hidden_test: Path) -> str:
    """The device that the tests of a file in tests/hidden need: its folder says it."""
    return "cuda" if hidden_test.parent.name == "cuda" else "cpu"


def id_of_test(device: str, function: str) -> str:
    """The id of a hidden test in results."""
    return f"cuda/{function}" if device == "cuda" else function


def _sha256(files: dict[str, Path]) -> str:
    """A hash over the names and contents of files."""
    digest = hashlib.sha256()
    for name, file in files.items():
        content = file.read_bytes()
        digest.update(f"{name} {len(content)}\n".encode() + content)
    return digest.hexdigest()


def load(root: Path | None = None) -> Course:
    """The course in `root`; by default the one that this grader was installed with or lies beside.

    Raises:
        GraderFault: There is no course there, or its problems.toml is wrong.
    """
    root = root or _own_root()
    try:
        listed = tomllib.loads((root / "assignment" / "problems.toml").read_text(encoding="utf-8"))
        return Course(
            root=root,
            limits=msgspec.convert(listed["limits"], Limits),
            problems=msgspec.convert(listed["problem"], list[Problem]),
        )
    except (OSError, KeyError, tomllib.TOMLDecodeError, msgspec.ValidationError) as e:
        raise GraderFault(f"no course in {root}: {e}") from None


def _own_root() -> Path:
    package = Path(__file__).resolve().parent
    installed = package / "course_files"
    return installed if installed.is_dir() else package.parent
