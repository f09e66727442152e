"""Fixtures for the tests of the grader: the repository, the command, and copies of the course."""

import gc
import os
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from grader import OBJECTS_BETWEEN_COLLECTIONS
from grader.classroom import database
from grader.course import courses
from grader.grading import grade
from grader.grading.local_student import LocalBox
from grader.grading.undo_settings import restored
from grader.sandbox.sandbox import Sandbox
from tests.grader import warm_python
from tests.grader.in_this_process import (  # noqa: F401  fixtures
    begun,
    grading,
    processes_start_at_once,
    reading_here,
    today,
    typed,
)
from tests.grader.processes import ran
from tests.grader.sampling import thirds
from tests.grader.warm_python import python

ROOT = Path(__file__).resolve().parents[2]
# As `make` does: the threads of several processes of pytest would wait for one another.
os.environ["OMP_NUM_THREADS"] = "1"
# Libraries create many objects and hardly any garbage; Python's default would look at them often.
gc.set_threshold(OBJECTS_BETWEEN_COLLECTIONS)
# Hypothesis generates the same examples in every run, however slow the machine is.
settings.register_profile(
    "seeded",
    derandomize=True,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    database=None,
    max_examples=100,
)
settings.load_profile("seeded")

# A process started by a shell's `&` ignores Ctrl-C, and so would the commands that tests interrupt.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add --third, with which continuous integration runs another part of the proof each time."""
    parser.addoption(
        "--third",
        metavar="COMMIT",
        help="only a third of the tests marked proof, chosen by this hexadecimal number",
    )


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.option.third:
        left = thirds(items)[int(config.option.third, 16) % 3]
        others = [item for item in items if item not in left]
        items[:] = [item for item in items if item in left]
        config.hook.pytest_deselected(items=others)


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Share one warm Python among the processes of pytest-xdist."""
    node.workerinput["python"] = python()


def pytest_configure(config: pytest.Config) -> None:
    warm_python.given = getattr(config, "workerinput", {}).get("python", "")


def pytest_sessionfinish() -> None:
    """Collect garbage once: pytest does ten times, each time among all that was imported."""
    gc.collect()
    gc.freeze()


Run = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture(autouse=True)
def settings_end_with_their_test() -> Iterator[None]:
    """Restore the settings that a test changed, so that none changes the next test."""
    with restored():
        yield


@pytest.fixture(autouse=True, scope="session")
def commits_wait_for_no_disk() -> Iterator[None]:
    """Let the gradebooks of this process be written without fsync, which only a power cut needs."""
    real = database._prepare

    def prepare(path: Path, opened: sqlite3.Connection) -> None:
        real(path, opened)
        opened.execute("PRAGMA synchronous = OFF")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(database, "_prepare", prepare)
        yield


@pytest.fixture(autouse=True, scope="session")
def grades_collect_no_garbage() -> Iterator[None]:
    """Let a grade in this process begin at once: beside all the tests, a collection takes 0.1 s."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(grade, "free_memory", SimpleNamespace(collect=lambda: None))
        yield


@pytest.fixture(scope="session")
def root() -> Path:
    return ROOT


@pytest.fixture(scope="session")
def grader() -> Run:
    """Run `grader` as a command with these arguments, and return the completed process.

    With `warm=False`, it has not imported torch, for which `validate` would have further trials.
    """

    def run(
        *arguments: object, cwd: Path = ROOT, env: dict[str, str] | None = None, warm: bool = True
    ) -> "subprocess.CompletedProcess[str]":
        executable = python() if warm else sys.executable
        return ran([executable, "-m", "grader", *arguments], cwd=cwd, env=env)

    return run


@pytest.fixture(scope="session")
def sandbox() -> Iterator[Sandbox]:
    """A warm sandbox with 8 MiB of scratch space, for the tests of the xdist group "sandbox"."""
    course = courses.load()
    grade.import_libraries(course)  # a process that has not imported torch takes no tensor
    with Sandbox(
        course.tests, isolation="bubblewrap", scratch_bytes=8 * 2**20, preload=course.imported_first
    ) as running:
        yield running


@pytest.fixture(scope="session")
def plain() -> Iterator[Callable[[str], Sandbox]]:
    """A function that returns the sandbox of a level that has no torch; one serves all tests."""
    from tests.grader.in_the_sandbox import plain_box  # which loads the course

    with ExitStack() as stack:
        yield cache(lambda level: stack.enter_context(plain_box(level, scratch_bytes=8 * 2**20)))


@pytest.fixture
def box() -> Iterator[LocalBox]:
    """A place in this process in which solutions are run."""
    with closing(LocalBox()) as made:
        yield made


@pytest.fixture
def tiny(tmp_path: Path) -> Path:
    return shutil.copytree(ROOT / "examples" / "tiny_course", tmp_path / "tiny")


@pytest.fixture
def copy_of_the_course(tmp_path: Path) -> Path:
    """A copy of the files that grading from a checkout needs, which a test may change."""
    return copied_course(tmp_path)


def copied_course(folder: Path) -> Path:
    """Copy the files that grading from a checkout needs to a folder, and return the copy."""
    target = folder / "copy"
    skipped = shutil.ignore_patterns("__pycache__", "grader")
    for folder in ("assignment", "flight", "grader", "kit", "tests"):
        shutil.copytree(ROOT / folder, target / folder, ignore=skipped)
    return target


def changed(path: Path, old: str, new: str) -> Path:
    """Replace a text in a file, once; return the file."""
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new, 1), encoding="utf-8")
    return path


def starts_sooner(course: Path) -> Path:
    """Let a copy of the course preload nothing: it starts faster, and each process imports more."""
    listed = course / "assignment" / "problems.toml"
    listed.write_text(re.sub(r"(?m)^preload = .*", "preload = []", listed.read_text()))
    return course
