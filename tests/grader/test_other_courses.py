"""Other courses: the smallest possible one, and two courses in one process."""

import json
import shutil
from contextlib import nullcontext

import pytest

from grader.sandbox.sandbox import Sandbox
from tests.grader import small_courses
from tests.grader.conftest import changed
from tests.grader.in_the_sandbox import warm
from tests.grader.processes import ran
from tests.grader.warm_python import python

pytestmark = pytest.mark.slow


@pytest.fixture
def course(root):
    return root / "examples" / "tiny_course"


@pytest.fixture
def solved(course, tmp_path):
    """The example's reference, as a submission."""
    folder = tmp_path / "solved"
    return shutil.copytree(course / "solutions/reference", folder / "assignment").parent


@pytest.mark.parametrize(("kind", "options"), [("tiny", ()), ("plain", ("--plain",))])
def test_a_new_course_is_this_one_under_another_name(typed, root, kind, options, tmp_path):
    """`grader new` writes a course that is graded at once, and never into a folder in use."""
    course = root / "examples" / f"{kind}_course"
    code, _, said = typed("new", *options, tmp_path / "my_course")
    assert (code, said, typed.err) == (0, "", "")
    for path in course.rglob("*"):
        if path.is_file() and "__pycache__" not in path.parts:
            ours = path.read_text().replace(f"A {kind} course", "my_course")
            theirs = (tmp_path / "my_course" / path.relative_to(course)).read_text()
            assert ours == theirs
    code, _, said = typed("new", tmp_path / "my_course")
    assert (code, said) == (2, f"grader: {tmp_path / 'my_course'} is not empty: name a new folder")


@warm
def test_it_is_graded(typed, sandbox, monkeypatch, course, solved, tmp_path):
    """With a known mistake in one of its two problems, in a box that another course has used."""
    monkeypatch.setattr(Sandbox, "of", lambda *_, **__: nullcontext(sandbox))
    source = solved / "assignment" / "activations.py"
    changed(source, "(x - x.amax(dim=-1, keepdim=True)).exp()", "x.exp()")
    options = ("--annotations", "--json", tmp_path / "r.json")
    _, report, _ = typed("grade", "--course", course, solved, *options)
    result = json.loads((tmp_path / "r.json").read_text())
    assert [("relu", 1.0), ("softmax", 1.0)] == [(p["id"], p["score"]) for p in result["problems"]]
    assert "\n::error file=assignment/activations.py,line=" in report
    assert "looks like The scores are not shifted, so large ones overflow." in report
    assert "score 2.00 of 3" in report


@pytest.mark.proof
def test_it_is_proved(grader, course, tmp_path):
    """The course's own mistakes are tried, and an unneeded test is named."""
    done = grader("validate", "--course", course, "--only", "softmax", "--jobs", 1)
    assert done.returncode == 0, done.stderr
    assert "2 wrong solutions, 2 of 2 trials as required" in done.stdout
    other = shutil.copytree(course, tmp_path / "course")
    changed(other / "tests/hidden/softmax/test_hidden.py", "# Stays: this", "# This")
    done = grader("validate", "--course", other, "--draft", "--only", "softmax", "--jobs", 1)
    assert 1 == done.returncode
    assert (
        "softmax · test_softmax_over_the_last_dimension: other tests catch everything that it "
        "catches" in done.stderr
    )


def test_the_course_may_be_named_before_the_command(typed, course, tmp_path):
    assert typed("--course", course, "stubs", "--check")[0] == 0
    code, _, said = typed("--course", tmp_path, "stubs", "--check")
    expected = f"--course {tmp_path}: expected the folder of a course; there is no "
    assert (code, expected in said) == (2, True)
    assert typed("--course", tmp_path, "stubs", "--check", "--course", course)[0] == 0


# --- one process can grade with two courses, each with its own hidden tests and probes ------------


PROGRAM = """
import json, sys
from pathlib import Path
from grader.course import courses
from grader.submission import submissions
from grader.grading.grade import grade
from grader.sandbox.sandbox import Sandbox

def graded(root):
    course = courses.load(Path(root))
    with Sandbox.of(course, isolation="bubblewrap") as sandbox:
        problems = [course.problem("relu")]
        given = submissions.read(Path(sys.argv[1]))
        results = [grade(given, course, sandbox, problems=problems, explain=False) for _ in "12"]
    problem, again = (result.problems[0] for result in results)
    assert [t.hint for t in problem.tests] == [t.hint for t in again.tests]
    hints = [test.hint for test in problem.tests]
    return [problem.score, hints, sys.modules["tests"].__file__]

print(json.dumps([graded(root) for root in sys.argv[2:]]))
"""


def test_each_of_two_courses_is_graded_by_its_own_tests(root, tmp_path):
    """The first one gives the same result before and after the second."""
    first, other = (small_courses.with_lists(tmp_path / name) for name in ("first", "other"))
    hidden = other / "tests" / "hidden" / "relu" / "test_hidden.py"
    nothing = "\n\n@pytest.mark.harm('crash')\ndef test_nothing():\n    pass\n"
    changed(hidden, "max(0, x)", "another hint than ours")
    hidden.write_text(hidden.read_text() + nothing)
    given = tmp_path / "given" / "assignment"
    given.mkdir(parents=True)
    (given / "activations.py").write_text("def relu(x): return [abs(n) for n in x]\n")
    command = [python(), "-c", PROGRAM, given.parent, first, other, first]
    done = ran([*map(str, command)], cwd=root)
    assert done.returncode == 0, done.stderr
    one, two, again = json.loads(done.stdout)
    assert one == again
    assert one[0] != two[0]
    assert "max(0, x)" in one[1]
    assert "another hint than ours" in two[1]
    assert one[2] == str(first / "tests/__init__.py")


def test_a_module_that_cannot_be_preloaded_is_the_courses_fault(typed, solved, tmp_path):
    """One sentence names the module and the key, also if it is there but needs another one."""
    course = small_courses.with_lists(tmp_path / "course")
    (course / "tests" / "probes" / "needs.py").write_text("import no_such_module\n")
    listed = course / "assignment" / "problems.toml"
    listed.write_text(f'preload = ["tests.probes.needs"]\n{listed.read_text()}')
    code, shown, said = typed("grade", solved, "--course", course)
    assert (code, shown, "fault of the course" in said) == (3, "", True)
    assert "problems.toml: preload: tests.probes.needs cannot be imported: " in said
