"""The C++ compiler in the box, by the course examples/kernels, which needs it."""

import re
import shutil

import msgspec
import pytest

from grader import tools
from grader.base.errors import CourseFault, MachineFault, Status
from grader.course import courses
from grader.grading.grade import grade
from grader.sandbox.sandbox import Sandbox
from grader.submission.submissions import Submission
from grader.tools import gxx
from tests.grader.conftest import ROOT
from tests.grader.in_the_sandbox import LEVELS, answer
from tests.grader.processes import ran
from tests.grader.sampling import every

NEEDS_COMPILER = pytest.mark.skipif(gxx.find() is None, reason="there is no C++ compiler")
pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("tools")]
# What a program of a submission must not find.
OTHERS = ("/etc/passwd", "/etc/shadow", str(next((ROOT / "tests/hidden").glob("*/*.py"))))


@pytest.fixture(scope="module")
def course():
    """The course, without the problem for torch's compiler, which takes a minute."""
    course = courses.load(ROOT / "examples" / "kernels")
    return msgspec.structs.replace(course, problems=[course.problem("softmax")])


@pytest.fixture(scope="module", params=every(2, LEVELS))
def box(request, course):
    """One sandbox per level, which all submissions share as in a batch."""
    with Sandbox.of(course, isolation=request.param) as running:
        yield running


def graded(course, box, source=None):
    """The result of the problem, for the reference or for another C++ source."""
    module = f"def softmax_source():\n    return {source!r}\n"
    if source is None:
        module = course.reference_of(course.problem("softmax"))
    sources = {"assignment/rows.py": module.encode(), "assignment/fused.py": b""}
    return grade(Submission("s", sources, []), course, box, explain=False).problems[0]


@NEEDS_COMPILER
@pytest.mark.parametrize(
    ("source", "words"),
    [
        ('extern "C" void softmax() { x = 1; }', "error: .x. was not declared in this scope"),
        *every(2, [(f'#include "{file}"', "No such file|Permission denied") for file in OTHERS]),
        *every(2, [(f'asm(".incbin \\"{f}\\"");', "file not found|Perm.* denied") for f in OTHERS]),
    ],
)
def test_a_compile_error_is_the_students_and_quotes_the_compiler(course, box, source, words):
    """Neither an include nor an assembler can read what the process itself cannot."""
    for test in graded(course, box, source).tests:
        assert Status.FAILED == test.status
        assert re.search(rf"the compiler says: .*({words})", test.what, re.IGNORECASE), test.what


@NEEDS_COMPILER
def test_a_wrong_kernel_fails_a_crash_is_a_crash_and_the_reference_passes(course, box):
    head = 'extern "C" void softmax(const float* x, float* out, long rows, long columns)'
    wrong = graded(course, box, f"{head} {{ for (long i = 0; i < rows; i++) out[i] = 1; }}")
    assert (Status.FAILED, 0.0) == (wrong.status, wrong.score)
    assert "the compiler says" not in wrong.tests[0].what
    crashed = graded(course, box, f"{head} {{ *(volatile int*) 8 = 1; }}")
    assert (Status.CRASHED, 0.0) == (crashed.status, crashed.score)
    for _ in range(2):
        right = graded(course, box)
        assert (Status.PASSED, 2.0) == (right.status, right.score), right.tests


@pytest.mark.parametrize("level", LEVELS)
@NEEDS_COMPILER
def test_no_compiler_is_shown_to_a_course_that_names_none(plain, level):
    """Other courses have a box without programs."""
    source = f"""
        import subprocess
        def f():
            try:
                subprocess.run([{shutil.which("g++")!r}, "--version"])
            except OSError as e:
                return type(e).__name__
    """
    assert answer(plain(level), source) in ("FileNotFoundError", "PermissionError")


def test_an_unknown_tool_is_the_courses_fault():
    with pytest.raises(CourseFault, match=r'tools: expected one of g\+\+; got "nvcc"'):
        tools.find(["g++", "nvcc"] if gxx.find() else ["nvcc"])


def test_a_machine_without_the_tool_is_told_how_to_install_it(course, monkeypatch):
    """Nobody is graded there."""
    monkeypatch.setitem(tools.FIND, "g++", lambda: None)
    with pytest.raises(MachineFault, match=r"need g\+\+, .*: apt-get install g\+\+$"):
        Sandbox.of(course, isolation=LEVELS[0])


def test_a_compiler_that_does_not_work_is_none(monkeypatch, tmp_path):
    """A program of that name alone is not enough."""
    broken = tmp_path / "g++"
    broken.write_text("#!/bin/sh\nexit 1\n")
    broken.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert gxx.find.__wrapped__() is None


def test_the_container_installs_each_tool(tmp_path):
    script = (ROOT / "grader/publish/bundle/gradescope/setup.sh").read_text()
    loop = re.search(r"^for tool in .*?^done$", script, re.MULTILINE | re.DOTALL)[0]
    listed = tmp_path / "course" / "assignment" / "problems.toml"
    listed.parent.mkdir(parents=True)
    programs = tmp_path / "programs"
    programs.mkdir()
    for name in ("sed", "tr"):
        (programs / name).symlink_to(shutil.which(name))
    for line, expected in [('tools = ["g++", "cc9"]', "g++ cc9"), ("[limits]", "")]:
        listed.write_text(f"packages = []\n{line}\n")
        apt = 'apt() { [ "$1" = update ] || echo "$2"; }'
        environment = {"source": str(tmp_path), "PATH": str(programs)}
        told = ran([shutil.which("bash"), "-c", f"{apt}\n{loop}"], env=environment)
        assert expected == " ".join(told.stdout.split())
