"""The course that is graded: its paths, its problems, its limits, and the hash of its suite."""

import ast
import hashlib
import importlib.metadata
import os
import re
import sys
from functools import lru_cache
from pathlib import Path
from typing import Any

import msgspec
from packaging.requirements import Requirement

import kit
from grader.base.errors import CourseFault, UsageError
from grader.course import problems_toml
from kit import handing_in

CODE_BLOCK = re.compile(r"^```python\n(.*?)^```", re.DOTALL | re.MULTILINE)
PACKAGE = Path(__file__).parent.parent
# The time for repeated attempts, in addition to `submission_seconds`, as a share of it.
SPARE_SHARE = 0.1
# Memory that a grader needs in addition to a test's limit: its trusted process and the zygote. They
# took 571 to 644 MiB together in a container that had little more.
GRADER_BYTES = 640 * 2**20
# What Python and the system leave in folders.
HIDDEN_TESTS = {"cpu": "test_hidden.py", "cuda": "test_cuda.py"}  # by device
LEFT_OVER = {"__pycache__", ".DS_Store"}


class Limits(msgspec.Struct, frozen=True):
    """The resource limits of one test.

    `device_memory_bytes` is GPU memory. `submission_seconds` applies to all tests of a submission
    together.
    """

    wall_seconds: float
    cpu_seconds: int
    memory_bytes: int
    device_memory_bytes: int
    processes: int
    file_bytes: int
    submission_seconds: float


class Problem(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One entry of problems.toml; the comment in that file explains the keys."""

    id: str
    module: str
    functions: list[str]
    points: int
    section: str = ""
    device: str = "cpu"
    forbidden: list[str] = []
    forbidden_in: dict[str, list[str]] = {}
    limits: dict[str, int | float] = {}
    program: bool = False
    declined: dict[str, str] = {}

    @property
    def path(self) -> str:
        """The file of a submission that contains this problem, relative to the submission."""
        return handing_in.path_of(self.module)

    @property
    def by_hand(self) -> list[str]:
        """Definitions that must not run a backward pass, such as "autograd.linear_backward"."""
        return [f"{self.module}.{name}" for name in self.forbidden_in]

    @property
    def rules(self) -> dict[str, Any]:
        """The rules for searching a problem's source; see kit/forbidden_in_source.py."""
        names = ("id", "functions", "forbidden", "forbidden_in")
        return {name: getattr(self, name) for name in names}


class Course(msgspec.Struct, frozen=True):
    """The problems, and the locations of their files."""

    root: Path  # the folder that contains assignment/, tests/ and handout/
    # The folder that contains reference/ and mutants.toml. Students never get it.
    solutions: Path
    limits: Limits  # the limits of each test, unless its problem sets its own
    problems: list[Problem]  # the problems in the order of the handout
    # The packages that a submission may import, as pip names them, such as "numpy>=1.26". It may
    # also import the packages that these require.
    packages: tuple[str, ...] = kit.USUAL_PACKAGES
    # The programs that a submission may start, by the names of `grader/tools`.
    tools: tuple[str, ...] = ()
    files: tuple[str, ...] = ()  # patterns of files that a submission may have beside its modules
    # Folders beside assignment/ that students get, such as a program that uses their modules. No
    # grade depends on them.
    folders: tuple[str, ...] = ()
    preload: tuple[str, ...] = ()  # the modules to import before the first test, besides torch
    # The most points that a known mistake may cost if it passes all public tests; None if the
    # course sets no limit.
    green_may_lose: float | None = None
    # Where students find their zip, which notebooks then fetch; "" for nowhere.
    bundle_url: str = ""

    @property
    def accepted(self) -> handing_in.Accepted:
        """What of a submission is graded."""
        paths = dict.fromkeys(problem.path for problem in self.problems)
        ids = tuple((problem.id, problem.path) for problem in self.problems)
        return handing_in.Accepted(tuple(paths), self.files, tuple(self.given_modules()), ids)

    @property
    def list_of_problems(self) -> Path:
        """The file problems.toml."""
        return self.assignment / "problems.toml"

    @property
    def uses_torch(self) -> bool:
        """Whether a submission may import torch, which is then imported before the first test."""
        return "torch" in self.libraries

    @property
    def libraries(self) -> list[str]:
        """torch and NumPy, if a submission may import them."""
        names = [Requirement(package).name for package in self.packages]
        return [name for name in ("torch", "numpy") if name in names]

    @property
    def imported_first(self) -> list[str]:
        """The modules that the sandbox imports before the first test."""
        return [*self.libraries, *self.preload]

    @property
    def assignment(self) -> Path:
        """The folder of stubs and problems.toml."""
        return self.root / "assignment"

    @property
    def tests(self) -> Path:
        """The folder of hidden tests, public tests and probes."""
        return self.root / "tests"

    @property
    def handout(self) -> Path:
        """The folder of the handout's text and of everything that is built from it."""
        return self.root / "handout"

    @property
    def reference(self) -> Path:
        """The folder of the reference solutions."""
        return self.solutions / "reference"

    @property
    def hidden(self) -> Path:
        """The folder of everything secret that proves a problem, in a folder per problem.

        It has the hidden tests (test_hidden.py, test_cuda.py), the known mistakes (wrong.edits) and
        the correct solutions in other styles (right.py).
        """
        return self.tests / "hidden"

    @property
    def mutants(self) -> Path:
        """The list of mutants of the reference that no test can detect."""
        return self.solutions / "mutants.toml"

    @property
    def policy(self) -> Path:
        """The file with the rules for a class: deadlines, lateness; it need not exist."""
        return self.root / "policy.toml"

    @property
    def bundle(self) -> Path:
        """The folder that contains student/ (for the student's bundle) and shared_lines.txt.

        It need not exist.
        """
        is_own = self.solutions.parent == self.root
        return self.root / "bundle" if is_own else self.solutions.parent / "publish" / "bundle"

    def reference_of(self, problem: Problem) -> str:
        """The source of the reference module that contains a problem."""
        return text_of(self.reference / problem.path.removeprefix("assignment/"))

    @property
    def modules(self) -> list[str]:
        """The modules of the assignment, without duplicates."""
        return list(dict.fromkeys(problem.module for problem in self.problems))

    def problem(self, problem_id: str) -> Problem:
        """The problem with the given id.

        Raises:
            KeyError: No problem has this id.
        """
        return {problem.id: problem for problem in self.problems}[problem_id]

    @property
    def sections(self) -> dict[str, str]:
        """For each problem's id, the section of the handout that it belongs to, if it has one."""
        return {problem.id: problem.section for problem in self.problems if problem.section}

    def handout_links(self, url: str) -> dict[str, str]:
        """For each problem's id, the address of its section in the handout published at a URL."""
        found = {}
        for problem, section in self.sections.items():
            chapter, _, number = section.partition(".")
            for path in self.handout.glob(f"{int(chapter):02}_*.md"):
                if url and f"\n## {section} " in text_of(path):
                    page = f"{path.stem}.html#section-{chapter}-{number}"
                    found[problem] = f"{url.rstrip('/')}/{page}"
        return found

    def limits_of(self, problem: Problem) -> Limits:
        """The limits of a problem's tests."""
        return msgspec.structs.replace(self.limits, **problem.limits)

    def limited(self, *, seconds: float | None = None, memory_mib: int | None = None) -> "Course":
        """The same course with lower limits, for a machine with fewer resources.

        Args:
            seconds: Wall time for all tests of a submission together, with those that are
                repeated; None: unchanged.
            memory_mib: The most memory for one test; None: unchanged.
        """
        was = self.limits
        changed: dict[str, float] = {}
        if seconds is not None:
            cpu_seconds = seconds / (1 + SPARE_SHARE) * was.cpu_seconds / was.wall_seconds
            changed["submission_seconds"] = min(was.submission_seconds, cpu_seconds)
        if memory_mib is not None:
            changed["memory_bytes"] = min(was.memory_bytes, memory_mib * 2**20)
        return msgspec.structs.replace(self, limits=msgspec.structs.replace(was, **changed))

    def hidden_tests(self, problem: Problem) -> dict[str, Path]:
        """A problem's files of hidden tests by device ("cpu", "cuda"); only files that exist."""
        files = {device: self.hidden / problem.id / name for device, name in HIDDEN_TESTS.items()}
        return {device: path for device, path in files.items() if path.is_file()}

    def given_sources(self) -> list[str]:
        """All code that every student gets: stubs, public tests, and examples of the handout."""
        given = [*self.assignment.rglob("*.py"), *(self.tests / "public").rglob("*.py")]
        pages = [text_of(page) for page in sorted(self.handout.glob("*.md"))]
        examples = [_typed(text) for page in pages for text in CODE_BLOCK.findall(page)]
        return [text_of(path) for path in sorted(given)] + examples

    def given_modules(self) -> dict[str, bytes]:
        """The modules that students get complete, because they belong to no problem, by path."""
        of_problems = {problem.path for problem in self.problems}
        found = sources_in(self.assignment)
        return {path: source for path, source in found.items() if path not in of_problems}

    def suite_sha256(self) -> str:
        """A hash of the files that affect a score: problems.toml, tests, probes and their data."""
        files = [self.list_of_problems, *sorted(self.tests.glob("*.py"))]
        files += [self.root / path for path in self.given_modules()]
        hidden = files_below(self.hidden)
        proofs = (*self.hidden.glob("*/wrong.edits"), *self.hidden.glob("*/right.py"))
        files += files_below(self.tests / "probes") + sorted({*hidden} - {*proofs})
        return _sha256({path.relative_to(self.root).as_posix(): path for path in files})

    def handout_sources(self) -> dict[str, Path]:
        """The files that the built handout depends on, by name.

        They are the handout's folder, problems.toml, and the sources that compute its pictures and
        figures.
        """
        built = self.handout / "build"
        files = [path for path in files_below(self.handout) if built not in path.parents]
        files += [self.list_of_problems]
        # The stubs are checked against the handout's text, and the reference imports some of them.
        files += self.assignment.glob("*.py")
        # Pages compute figures with the modules of further folders that students get.
        files += [path for name in self.folders for path in files_below(self.root / name)]
        named = {path.relative_to(self.root).as_posix(): path for path in files}
        named |= {
            f"grader/solutions/reference/{path.name}": path for path in self.reference.glob("*.py")
        }
        # Some files always come from the grader itself, wherever the course is: the pages show the
        # grader's version, markdown_figures.py parses the marks of figures, and pictures show
        # what the stand-in for a GPU does and what a model wrote.
        own = ("__init__.py", "base/markdown_figures.py")
        named |= {f"grader/{name}": PACKAGE / name for name in own}
        named |= {f"kit/{name}": kit.HERE / name for name in ("gpu_stand_in.py", "safe_text.py")}
        return dict(sorted(named.items()))

    def handout_sha256(self) -> str:
        """A hash of the files that the built handout depends on."""
        return _sha256(self.handout_sources())


def files_below(folder: Path) -> list[Path]:
    """Every file below a folder, except what Python or the system leaves there."""
    return sorted(
        path
        for path in folder.rglob("*")
        if path.is_file() and not LEFT_OVER & set(path.relative_to(folder).parts)
    )


def sources_in(folder: Path) -> dict[str, bytes]:
    """The modules in a folder and below, as a submission would contain them."""
    found = {
        f"assignment/{path.relative_to(folder).as_posix()}": path for path in folder.rglob("*.py")
    }
    return {
        name: path.read_bytes()
        for name, path in sorted(found.items())
        if name not in handing_in.THE_COURSES
    }


@lru_cache(maxsize=4096)  # asked several times for each test
def problem_of_file(hidden_test: str) -> str:
    """The id of the problem that a file in tests/hidden, or the pytest id of a test, belongs to."""
    return Path(hidden_test.split("::")[0]).parent.name


def id_of_test(device: str, function: str) -> str:
    """The id that results use for a hidden test."""
    return f"cuda/{function}" if device == "cuda" else function


def _sha256(files: dict[str, Path]) -> str:
    """A hash of the names and contents of files."""
    digest = hashlib.sha256()
    for name, file in files.items():
        content = file.read_bytes()
        digest.update(f"{name} {len(content)}\n".encode() + content)
    return digest.hexdigest()


def _typed(example: str) -> str:
    """An example without prompts and what Python prints, if it has prompts."""
    lines = [line[4:] for line in example.splitlines() if line.startswith((">>> ", "... "))]
    return "\n".join(lines) or example


def text_of(path: Path) -> str:
    """The text of one of a course's files.

    Raises:
        CourseFault: It is missing, or is not UTF-8 text.
    """
    try:
        return path.read_text(encoding="utf-8")
    except OSError as e:
        raise CourseFault(f"{path} cannot be read: {e.strerror}") from None
    except UnicodeDecodeError as e:
        raise CourseFault(f"{path} is not UTF-8 text: {e}") from None


def tree_of(path: Path) -> ast.Module:
    """The syntax tree of one of a course's files.

    Raises:
        CourseFault: The file is missing, or is not Python.
    """
    try:
        return ast.parse(text_of(path))
    except (SyntaxError, ValueError) as e:
        line = f":{e.lineno}" if isinstance(e, SyntaxError) and e.lineno else ""
        said = e.msg if isinstance(e, SyntaxError) else str(e)
        raise CourseFault(f"{path}{line}: this is not Python: {said}") from None


def own_files(root: Path | None = None) -> list[Path]:
    """The files and folders of the course in `root`, some of which need not exist."""
    root = _own_root() if root is None else root.absolute()
    names = ("assignment", "tests", "handout", "solutions", "bundle", "policy.toml")
    return [*(root / name for name in names), PACKAGE / "solutions"]


def load(root: Path | None = None) -> Course:
    """Load the course in `root`.

    By default, load the course installed with the grader or, in a checkout, the one next to it.

    Raises:
        UsageError: There is no course in `root`.
        CourseFault: Its problems.toml is wrong, or the course that comes with the grader is gone.
    """
    folder = _own_root() if root is None else root.absolute()
    path = folder / "assignment" / "problems.toml"
    if not os.path.isfile(path):
        if root is None:
            raise CourseFault(f"no course in {folder}: there is no {path}")
        why = f"there is no {path}" if root.is_dir() else "it is a file"
        why = why if root.exists() else "there is no such folder"
        raise UsageError(f"--course {root}: expected the folder of a course; {why}")
    text = text_of(path)
    listed = problems_toml.load(
        text, {name: kind for name, kind in Limits.__annotations__.items() if kind in (int, float)}
    )
    if isinstance(listed, problems_toml.Wrong):
        raise CourseFault(f"{path}:{listed.line}: {listed.text}")
    try:
        return Course(
            root=folder,
            solutions=_solutions(folder),
            limits=msgspec.convert(kit.USUAL_LIMITS | listed.get("limits", {}), Limits),
            problems=msgspec.convert(listed["problem"], list[Problem]),
            packages=tuple(listed.get("packages", kit.USUAL_PACKAGES)),
            tools=tuple(listed.get("tools", ())),
            files=tuple(listed.get("files", ())),
            folders=tuple(listed.get("folders", ())),
            preload=tuple(listed.get("preload", ())),
            green_may_lose=listed.get("green_may_lose"),
            bundle_url=listed.get("bundle_url", ""),
        )
    except msgspec.ValidationError as e:
        raise CourseFault(f"{path}: {e}") from None


def check_packages(course: Course) -> None:
    """Check that the packages of a course are installed where this process looks for them.

    Raises:
        CourseFault: One is missing, or has another version than problems.toml asks for.
    """
    for package in map(Requirement, course.packages):
        try:
            version = importlib.metadata.version(package.name)
        except importlib.metadata.PackageNotFoundError:
            found = f"{package.name} is not installed in {sys.prefix}"
        else:
            if package.specifier.contains(version, prereleases=True):
                continue
            found = f"{package.name} {version} is installed in {sys.prefix}"
        path = course.list_of_problems
        line = problems_toml.line_of(text_of(path), None, "packages")
        raise CourseFault(
            f"{path}:{line}: packages: expected {package}; {found}: "
            f'run `{sys.executable} -m pip install "{package}"`'
        )


def _solutions(root: Path) -> Path:
    """The course's own solutions/; those of the grader's own course are part of the grader."""
    beside = root / "grader" / "solutions"
    ours = beside if beside.is_dir() else PACKAGE / "solutions"
    return ours if beside.is_dir() or root == _own_root() else root / "solutions"


def _own_root() -> Path:
    package = PACKAGE.resolve()
    installed = package / "course_files"
    return installed if installed.is_dir() else package.parent
