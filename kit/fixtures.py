"""A pytest plugin: the fixtures of every test, and failure messages written for a student.

`python -m pytest --package NAME` tests a package other than `assignment`. `--seed N` gives the
tests other inputs.
"""

import gc
import hashlib
import tomllib
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from kit import USUAL_PACKAGES, expect, name_of
from kit.safe_text import message_of
from kit.student import StudentPackage, generator_of

NOT_ATTEMPTED = "not attempted"
MARKS = (
    "own_process: the grader runs no other test in this test's process",
    "points(weight): this test's share of its problem's points",
    "stage(number): the stage of its problem that a test belongs to, for the handout",
    "harm(kind): what a failure costs in practice, which decides the test's weight: trains worse, "
    "wrong number, crash, not refused or rare",
)


def pytest_addoption(parser: pytest.Parser) -> None:
    add = parser.addoption
    add("--package", default="assignment", help="the package to test (default: assignment)")
    add("--seed", type=int, default=0, help="the seed of the tests' inputs (default: 0)")


class Hooks:
    """Hooks for the program that runs the tests."""

    @pytest.hookspec(firstresult=True)
    def pytest_make_student(self, item: pytest.Item) -> Any:
        """Return the student for a test, or None to import the package into this process."""


def pytest_addhooks(pluginmanager: pytest.PytestPluginManager) -> None:
    pluginmanager.add_hookspecs(Hooks)


def pytest_configure(config: pytest.Config) -> None:
    for mark in MARKS:
        config.addinivalue_line("markers", mark)


def pytest_collection_finish(session: pytest.Session) -> None:
    freeze_what_is_imported()


@cache
def freeze_what_is_imported() -> None:
    """Once per process, exclude everything that was imported from later garbage collections.

    Each collection then takes 1 ms instead of 150 ms.
    """
    gc.freeze()


@pytest.fixture
def student(request: pytest.FixtureRequest) -> Iterator[Any]:
    """The student's package. A grader replaces the imported package by a sandboxed one."""
    made = request.config.hook.pytest_make_student(item=request.node)
    expect.sandboxed = made is not None
    try:
        yield StudentPackage(request.config.getoption("--package")) if made is None else made
    finally:
        expect.sandboxed = False


@pytest.fixture
def rng(request: pytest.FixtureRequest) -> Any:
    """A generator for this test alone: its inputs depend only on the test's name and the seed.

    `kit/student.py` says of which kind it is.
    """
    seed = request.config.getoption("--seed")
    digest = hashlib.sha256(f"{seed}:{request.node.name}".encode()).digest()
    listed = listed_in(request.config.rootpath).get("packages", USUAL_PACKAGES)
    return generator_of(int.from_bytes(digest[:7], "big"), list(map(name_of, listed)))


@pytest.fixture
def device(request: pytest.FixtureRequest) -> str:
    """The device of a GPU test: "cuda" in a test_cuda.py, "stand-in" everywhere else."""
    return "cuda" if request.node.path.name == "test_cuda.py" else "stand-in"


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Make `-k <problem id>` select only that problem, not every test with the id in its name."""
    ids = {item: _problem_id(item.path) for item in items}
    if config.option.keyword not in ids.values():
        return
    others = [item for item in items if ids[item] != config.option.keyword]
    items[:] = [item for item in items if ids[item] == config.option.keyword]
    config.option.keyword = ""
    config.hook.pytest_deselected(items=others)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Any:
    error = call.excinfo.value if call.excinfo else None
    if error and error.args and isinstance(error.args[0], str):
        error.args = (message_of(error.args[0]), *error.args[1:])
    report = yield
    problem = problem_of(item)
    if problem and report.failed and isinstance(error, expect.Mismatch):
        section = problem.get("section", "")
        report.longrepr = expect.render(error, problem=problem["id"], section=section)
    elif report.failed and type(error) is NotImplementedError:
        report.longrepr = f"not attempted yet: {error}"
        report.not_attempted = problem["id"] if problem else ""
    return report


@pytest.hookimpl(tryfirst=True)
def pytest_report_teststatus(report: pytest.TestReport) -> tuple[str, str, str] | None:
    """Show tests that were not attempted in one line per problem, and not as failures."""
    is_open = getattr(report, "not_attempted", None) and report.when == "call"
    return (NOT_ATTEMPTED, "-", "NOT ATTEMPTED") if is_open else None


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Print these lines."""
    reports = terminalreporter.stats.get(NOT_ATTEMPTED, [])
    for problem, count in Counter(report.not_attempted for report in reports).items():
        why = next(r.longrepr for r in reports if r.not_attempted == problem)
        terminalreporter.write_line(f"{count} test{'s' * (count > 1)} {why}")


@cache
def listed_in(root: Path) -> dict[str, Any]:
    """What the problems.toml of the course in `root` contains; empty if there is no such file."""
    path = root / "assignment" / "problems.toml"
    return tomllib.loads(path.read_text(encoding="utf-8") if path.is_file() else "")


def problem_of(item: pytest.Item) -> dict[str, Any] | None:
    """The problem of a test, or None for a grader test."""
    problem_id = _problem_id(item.path)
    known: list[dict[str, Any]] = listed_in(item.config.rootpath).get("problem", [])
    return next((problem for problem in known if problem["id"] == problem_id), None)


def _problem_id(path: Path) -> str:
    """The problem of a file of tests: public/test_<id>.py or hidden/<id>/test_….py."""
    if path.parent.parent.name == "hidden":
        return path.parent.name
    return path.stem.removeprefix("test_")
