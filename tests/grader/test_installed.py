"""However the grader is installed, no submission reads it, and it grades other courses."""

import json
import os
import shutil
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import pytest

from grader.course import courses
from tests.grader.processes import ran

pytestmark = pytest.mark.slow
IN_ONE_ENVIRONMENT = pytest.mark.xdist_group("installed")  # creating the environment is slow

SPY = '''
import importlib, os

def imports():
    found = []
    for name in ("grader", "grader.grading.grade", "grader.solutions.reference.linear",
                 "grader.wire.protocol", "tests.hidden.count_words.test_hidden", "kit.expect",
                 "tests.public.test_count_words", "tests.grader",
                 "pytest", "msgspec", "rich", "_pytest"):
        try:
            importlib.import_module(name)
            found.append(name)
        except ImportError:
            pass
    return found

def files(words):
    """Every path with one of these words."""
    found = []
    for folder, _, names in os.walk("/"):
        if not folder.startswith("/proc"):
            found += [f"{folder}/{name}" for name in names]
    return sorted(path for path in found if any(word in path for word in words))
'''

DRIVER = """
import json, sys
from pathlib import Path
import grader
from grader.course import courses
from grader.sandbox.sandbox import Sandbox
course = courses.load(Path(grader.__file__).parent / "new_course" / "plain_course")
box = {"isolation": "bubblewrap", "scratch_bytes": 2**20, "packages": ("numpy",), "preload": ()}
with Sandbox(course.tests, **box) as sandbox:
    from grader.sandbox.session import Session
    sys.path.insert(0, str(course.root))
    from kit.student import call
    sources = {"assignment/spy.py": Path(sys.argv[1]).read_bytes()}
    session = Session(sandbox, sources, course.limits, seed=0, forbidden=[])
    def ask(function, *args):
        asked = {"module": "spy", "function": function, "args": args, "kwargs": {}}
        return session.run(call, asked)
    words = ["grader", "hidden", "reference/", "problems.toml"]
    print(json.dumps([grader.__file__, ask("imports"), ask("files", words)]))
    session.close()
"""


@pytest.fixture(scope="module")
def installed(root, tmp_path_factory):
    """The Python of an environment with a grader from a real wheel, and the grader's folder."""
    folder = tmp_path_factory.mktemp("installed")
    build = [sys.executable, "-m", "hatchling", "build", "--target", "wheel"]
    build += ["--directory", str(folder / "wheel")]
    subprocess.run(build, cwd=root, check=True, capture_output=True)
    venv.create(folder / "venv", symlinks=True)
    packages = Path(sysconfig.get_path("purelib", vars={"base": str(folder / "venv")}))
    # Python does not read the .pth files inside a folder that a .pth file adds.
    (packages / "torch-and-others.pth").write_text(sysconfig.get_path("purelib") + "\n")
    (wheel,) = (folder / "wheel").glob("*.whl")
    shutil.unpack_archive(wheel, packages, "zip")  # all that pip does with one of plain Python
    return folder / "venv" / "bin" / "python", packages / "grader"


@IN_ONE_ENVIRONMENT
def test_nothing_is_seen_of_a_grader_installed_from_a_wheel(installed, tmp_path):
    """A submission sees what the worker needs, and its own files; an attack looks at a checkout."""
    python, package = installed
    (tmp_path / "spy.py").write_text(SPY)
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = ran([python, "-P", "-c", DRIVER, tmp_path / "spy.py"], cwd=tmp_path, env=environment)
    assert done.returncode == 0, done.stderr
    file, imports, files = json.loads(done.stdout)
    assert (file, imports) == (str(package / "__init__.py"), [])
    shown = ("/runtime/grader/worker/", "/runtime/grader/wire/", "/tmp/submission/")
    assert [path for path in files if not path.startswith(shown)] == []
    assert len(files) > 10


@IN_ONE_ENVIRONMENT
def test_a_wheel_carries_all_that_only_the_bundle_has(installed, root):
    """An installed grader makes the same bundle, including the hidden folder with the workflow."""
    ours, theirs = (folder / "publish/bundle/student" for folder in (root / "grader", installed[1]))
    files = [path.relative_to(ours) for path in ours.rglob("*") if path.is_file()]
    assert Path(".github/workflows/check.yml") in files
    assert [one for one in files if (ours / one).read_bytes() != (theirs / one).read_bytes()] == []


@IN_ONE_ENVIRONMENT
def test_an_installed_grader_has_the_suite_of_the_checkout(installed, tmp_path):
    """So their results can be merged, and neither makes the other's grades out of date."""
    python, _ = installed
    code = "from grader.course import courses; print(courses.load().suite_sha256())"
    done = ran([python, "-P", "-c", code], cwd=tmp_path)
    assert (courses.load().suite_sha256() + "\n", "") == (done.stdout, done.stderr)


@IN_ONE_ENVIRONMENT
@pytest.mark.parametrize("proves", [False, pytest.param(True, marks=pytest.mark.proof)])
def test_an_installed_grader_starts_grades_and_hands_out_a_course(installed, proves, tmp_path):
    """Nothing of ours is copied: the wheel has the kit, and the model of a new course."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}

    def run(*words, folder=tmp_path):
        done = ran([installed[0], "-P", *words], cwd=folder, env=environment)
        # A slow machine shows the progress on stderr.
        assert done.returncode == 0, (words, done.stderr)
        return done.stdout

    grader = ["-m", "grader"]
    assert "my_course: " in run(*grader, "new", "--plain", "my_course")
    reference = tmp_path / "my_course" / "solutions" / "reference"
    shutil.copytree(reference, tmp_path / "solved" / "assignment")
    proof = (["validate", "--only", "report"], "2 wrong solutions, 2 of 2 trials as required")
    for command, shown in [
        (["grade", "solved"], "score 4.00 of 4"),
        *([proof] if proves else []),
        (["release", "student", "student.zip"], "student.zip: "),
    ]:
        assert shown in run(*grader, *command, "--course", "my_course")
    shutil.unpack_archive(tmp_path / "student.zip", tmp_path)
    student = tmp_path / "student"
    shutil.copytree(reference, student / "assignment", dirs_exist_ok=True)
    program = "import sys, runpy; sys.path.insert(0, ''); import kit; print(kit.__file__); "
    program += "runpy.run_module('assignment', run_name='__main__', alter_sys=True)"
    shown = run("-c", program, folder=student)
    assert shown.startswith(f"{student / 'kit/__init__.py'}\n")
    assert "3 of 3 problems done" in shown
