"""`grader validate`: it proves the suite, and it notices when the suite is broken."""

import os
import subprocess
import sys
import time

import pytest

from grader import course as courses
from grader import fragments
from grader.validate import HERE

COURSE = courses.load()


@pytest.mark.slow
@pytest.mark.parametrize("part", range(4))
def test_the_suite_is_proved(grader, part):
    """Reference full, stub 0, wrong solutions caught, variants full: a sample of what `make validate` shows of all of them."""
    problems = [word for problem in COURSE.problems[part::4] for word in ("--only", problem.id)]
    done = grader("validate", *problems, "--quick", "--jobs", 1)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("problem", [problem.id for problem in COURSE.problems])
def test_there_is_enough_to_prove_it_with(problem):
    """At least eight wrong solutions and three variants a problem, each with its words."""
    wrong = fragments.load(HERE / "wrong", problem)
    variants = fragments.load(HERE / "variants", problem)
    assert len(wrong) >= 8
    assert len(variants) >= 3
    assert [f.name for f in wrong if not f.hint] == []


@pytest.mark.slow
def test_nothing_runs_on_where_the_command_is_killed(root, tmp_path):
    """Its processes, and their sandboxes, end with it."""
    command = [sys.executable, "-m", "grader", "validate", "--only", "linear", "--jobs", "1"]
    process = subprocess.Popen(command, cwd=root, stdout=subprocess.DEVNULL, env={**os.environ, "TMPDIR": str(tmp_path)})
    started = wait_until(lambda: list(tmp_path.glob("grader-*")))
    process.kill()
    process.wait()
    assert started
    assert wait_until(lambda: not list(tmp_path.glob("grader-*")))


def wait_until(holds, seconds=60):
    """Whether something comes true in time."""
    deadline = time.monotonic() + seconds
    while not holds() and time.monotonic() < deadline:
        time.sleep(0.1)
    return bool(holds())


@pytest.fixture
def small_course(copy_of_the_course):
    """A copy with one problem's wrong solutions and variants thinned out, so that it is proved in seconds."""
    for kind in ("wrong", "variants"):
        for path in sorted((copy_of_the_course / "grader" / kind / "tensor_memory").glob("*.py"))[1:]:
            path.unlink()
    return copy_of_the_course


@pytest.mark.slow
def test_a_broken_oracle_is_found_and_named(grader, small_course):
    """A hidden test that expects the wrong number fails the reference: exit 1, and the test is named."""
    broken = small_course / "tests" / "hidden" / "test_tensor_memory.py"
    broken.write_text(broken.read_text().replace("base.numel() * 8, of=", "base.numel() * 4, of=", 1))
    done = grader("validate", "--only", "tensor_memory", cwd=small_course)
    assert done.returncode == 1
    assert "tensor_memory · reference reference (seed 0): " in done.stderr
    assert "test_storage_bytes_is_the_whole_storage" in done.stderr


@pytest.mark.slow
def test_a_wrong_solution_that_passes_is_found_and_named(grader, small_course):
    """A mistake that no hidden test catches: exit 1, and the mistake is named."""
    (path,) = (small_course / "grader" / "wrong" / "tensor_memory").glob("*.py")
    path.write_text('"""Not wrong at all."""\n\n\ndef tensor_bytes(x):\n    return x.numel() * x.element_size()\n')
    done = grader("validate", "--only", "tensor_memory", cwd=small_course)
    assert done.returncode == 1
    assert f"tensor_memory · wrong {path.stem} (seed 0): it passes every test" in done.stderr


@pytest.mark.slow
def test_a_wrong_variant_is_found_and_named(grader, small_course):
    """A correct solution that the suite does not accept: exit 1, and it is named."""
    (path,) = (small_course / "grader" / "variants" / "tensor_memory").glob("*.py")
    path.write_text('"""Not a variant."""\n\n\ndef tensor_bytes(x):\n    return 4 * x.numel()\n')
    done = grader("validate", "--only", "tensor_memory", cwd=small_course)
    assert done.returncode == 1
    assert f"tensor_memory · variant {path.stem} (seed 0): " in done.stderr
