"""`python -m assignment fly`, as a student runs it in the unpacked bundle."""

import re
import shutil
import subprocess

import pytest

from flight import command
from grader.course import courses
from grader.publish import bundles
from tests.grader.warm_python import python

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("flight")]  # for the bundle

COURSE = courses.load()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The bundle, with half of the problems solved and one of them wrongly."""
    root = tmp_path_factory.mktemp("bundle")
    for path, content in bundles.student(COURSE, None).items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_bytes(content)
    for name in ("linear", "optimizers", "einops_reshaping", "data", "training"):
        source = (COURSE.reference / f"{name}.py").read_text(encoding="utf-8")
        if name == "optimizers":
            assert "weight_decay * p" in source or "weight_decay" in source
            source += (
                "\n\ndef clip_gradient_norm(parameters, max_l2_norm, eps=1e-6):\n    return 0.0\n"
            )
        (root / "assignment" / f"{name}.py").write_text(source, encoding="utf-8")
    return root


def fly(folder, *options):
    """Run the command."""
    words = [python(), "-m", "assignment", "fly", *options]
    return subprocess.run(words, cwd=folder, capture_output=True, text=True, timeout=550)


def test_half_of_the_parts_fly(folder):
    """Solved parts are used, a failing one is told as in the public tests, and given ones help."""
    done = fly(folder, "--size", "egg", "--steps", "4", "--batch", "2")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "yours: linear, einops, adamw, get_batch, training_loop" in done.stdout
    assert "given: gradient_clipping, checkpoint" in done.stdout
    assert "gradient_clipping · clip_gradient_norm: wrong" in done.stdout
    assert not re.search("^(next|first failure)$", done.stdout, re.MULTILINE)
    assert "your flop_formulas would predict it" in done.stdout
    assert "what it writes:" in done.stdout
    page = (folder / "flights" / "index.html").read_text(encoding="utf-8")
    assert "egg, 4 steps, batch 2" in page


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (["--checkpointing", "5"], "activation_checkpointing"),
        (["--autocast"], "training_loop"),
        (["--batch", "4", "--micro-batch", "2"], "training_loop"),
    ],
)
def test_a_switch_names_the_problem_that_it_needs(options, problem):
    """What given parts cannot do is refused unless the student's part can."""
    settings = command._settings(command._parser().parse_args(options))
    assert f"your {problem}" in command._missing(settings, ["linear"])
    assert command._missing(settings, [problem]) == ""


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--micro-batch", "99"], "--micro-batch 99 is more than the batch of 8"),
        (["--steps", "-1"], "--steps, --batch and --micro-batch are at least 1"),
        (["--checkpointing", "9"], "--checkpointing is between 0 and 8"),
    ],
)
def test_settings_that_cannot_fly_are_refused_at_once(folder, options, said):
    """The message says what is possible."""
    done = fly(folder, *options)
    assert done.returncode == 2
    assert said in done.stderr


def test_a_part_that_breaks_is_named(folder, tmp_path):
    """A part that is used although its tests fail is told with its line, without a traceback."""
    folder = shutil.copytree(folder, tmp_path / "broken")
    path = folder / "assignment" / "checkpointing.py"
    stub = path.read_text(encoding="utf-8")
    path.write_text(stub.replace("raise NotImplementedError", "raise OSError"), encoding="utf-8")
    options = ["--size", "egg", "--steps", "2", "--batch", "2", "--mine", "gradient_clipping"]
    source = (folder / "assignment" / "optimizers.py").read_text(encoding="utf-8")
    broken = source.replace("    return 0.0\n", "    return 1 / 0\n")
    (folder / "assignment" / "optimizers.py").write_text(broken, encoding="utf-8")
    done = fly(folder, *options)
    assert done.returncode == 1
    assert "raised ZeroDivisionError" in done.stderr
    assert "python -m assignment check" in done.stderr
    assert "Traceback" not in done.stderr
