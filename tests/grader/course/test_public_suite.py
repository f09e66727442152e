"""The public tests as students have them, in a folder with assignment/ and tests/ but no grader."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.grader.warm_python import python

pytestmark = pytest.mark.slow


@pytest.fixture
def bundle(tmp_path, root):
    """The files that students receive, with the stubs."""
    shutil.copytree(root / "assignment", tmp_path / "assignment")
    skipped = shutil.ignore_patterns("hidden", "grader", "__pycache__")
    for name in ("kit", "tests"):
        shutil.copytree(root / name, tmp_path / name, ignore=skipped)
    return tmp_path


def run_pytest(folder: Path, *arguments: str) -> str:
    """Return what pytest prints in that folder, with warnings as errors.

    Each run gets its own temporary folder: two pytest processes that clean up the shared one at the
    same time warn about each other.
    """
    options = [
        "-p",
        "no:cacheprovider",
        "-W",
        "error",
        "-q",
        f"--basetemp={folder.with_name('own')}",
    ]
    command = [python(), "-P", "-m", "pytest", *options, *arguments, "tests/public"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=600)
    assert done.returncode in (0, 1), (
        done.returncode,
        done.stdout,
        done.stderr,
    )  # the run finished
    return done.stdout


@pytest.mark.proof  # test_bundles does the same in the bundle
def test_every_public_test_passes_on_the_reference(bundle, root):
    """The reference passes every public test, with warnings as errors."""
    for path in (root / "grader" / "solutions" / "reference").glob("*.py"):
        shutil.copy(path, bundle / "assignment")
    assert re.search(r"^\d+ passed in", run_pytest(bundle), re.MULTILINE)


@pytest.mark.proof  # test_bundles does the same in the bundle
def test_every_public_test_of_a_stub_says_not_attempted(bundle):
    """Every stub only reports "not attempted": no traceback and no other error."""
    output = run_pytest(bundle)
    assert re.search(r"^\d+ not attempted in", output, re.MULTILINE), output
    assert "Traceback" not in output


def test_a_wrong_answer_is_told_in_a_few_lines(bundle, root):
    """A wrong answer shows the expected value, the answer, the inputs and the section to read."""
    shutil.copy(
        root / "grader" / "solutions" / "reference" / "tensor_memory.py", bundle / "assignment"
    )
    module = bundle / "assignment" / "tensor_memory.py"
    module.write_text(
        module.read_text().replace(
            "x.numel() * x.element_size()", "x.numel() * x.element_size() + 1"
        )
    )
    output = run_pytest(bundle, "-k", "test_tensor_memory and tensor_bytes")
    assert (
        "tensor_memory · tensor_bytes: wrong value\n"
        "  expected  128\n"
        "  got       129\n"
        "  inputs    x float32[4, 8]\n"
        "  see       handout §1.1\n"
    ) in output
