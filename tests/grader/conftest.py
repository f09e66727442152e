"""What the tests of the grader share: the repository, a way to run the command, and a copy of the repository to break."""

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import settings

ROOT = Path(__file__).resolve().parents[2]
# Generated examples are the same in every run, and no clock decides.
settings.register_profile(
    "seeded", derandomize=True, deadline=None, database=None, max_examples=100
)
settings.load_profile("seeded")

Run = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture(scope="session")
def root() -> Path:
    """The repository."""
    return ROOT


@pytest.fixture(scope="session")
def grader() -> Run:
    """Run `grader` with these arguments, as a command, and return what it printed."""

    def run(
        *arguments: object, cwd: Path = ROOT, env: dict[str, str] | None = None
    ) -> "subprocess.CompletedProcess[str]":
        command = [sys.executable, "-m", "grader", *map(str, arguments)]
        return subprocess.run(
            command, cwd=cwd, env=env, capture_output=True, text=True, timeout=600
        )

    return run


@pytest.fixture
def copy_of_the_course(tmp_path: Path) -> Path:
    """A copy of what a checkout needs to grade, to be broken by a test."""
    target = tmp_path / "copy"
    skipped = shutil.ignore_patterns("__pycache__", "attacks")
    for folder in ("assignment", "grader", "tests"):
        shutil.copytree(ROOT / folder, target / folder, ignore=skipped)
    return target
