"""One process can grade with two courses, each with its own hidden tests and probes.

The order of the courses does not matter.
"""

import json
import subprocess

import pytest

from tests.grader.conftest import starts_sooner
from tests.grader.warm_python import python

PROGRAM = """
import json, sys
from pathlib import Path
from grader.course import courses
from grader.submission import submissions
from grader.grading.grade import grade
from grader.sandbox.box import Sandbox

def graded(root):
    course = courses.load(Path(root))
    with Sandbox.of(course, isolation="bubblewrap") as sandbox:
        problems = [course.problem("tensor_memory")]
        given = submissions.read(Path(sys.argv[1]))
        results = [grade(given, course, sandbox, problems=problems, explain=False) for _ in "12"]
    problem, again = (result.problems[0] for result in results)
    assert [t.hint for t in problem.tests] == [t.hint for t in again.tests]
    hints = [test.hint for test in problem.tests]
    return [problem.score, hints, sys.modules["tests"].__file__]

print(json.dumps([graded(root) for root in sys.argv[2:]]))
"""


@pytest.mark.slow
def test_each_of_two_courses_is_graded_by_its_own_tests(
    copy_of_the_course, quick_course, root, tmp_path
):
    """The second course has other hints and one test more.

    The first course gives the same result before and after the second.
    """
    other = starts_sooner(copy_of_the_course)
    hidden = other / "tests/hidden/tensor_memory/test_hidden.py"
    words = "are two views of one storage counted twice? Is the whole storage counted?"
    assert words in hidden.read_text()
    hidden.write_text(hidden.read_text().replace(words, "another hint than ours"))
    first = hidden.read_text().index("@pytest.mark.harm")
    hidden.write_text(
        hidden.read_text()[:first]
        + "@pytest.mark.harm('crash')\ndef test_nothing():\n    pass\n\n\n"
        + hidden.read_text()[first:]
    )
    command = [python(), "-c", PROGRAM, root / "examples/sample.zip"]
    command += [quick_course, other, quick_course]
    done = subprocess.run(
        [*map(str, command)], cwd=root, capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, done.stderr
    one, two, again = json.loads(done.stdout)
    assert one == again
    assert one[0] != two[0]
    assert "are two views of one storage counted twice? Is the whole storage counted?" in one[1]
    assert "another hint than ours" in two[1]
    assert one[2] == str(quick_course / "tests/__init__.py")


@pytest.mark.slow
@pytest.mark.parametrize("module", ["torch.nowhere", "torch.utils.tensorboard"])
def test_a_module_that_cannot_be_preloaded_is_the_courses_fault(
    grader, copy_of_the_course, root, module
):
    """One sentence names the module and the key, also if it is there but needs another one."""
    listed = starts_sooner(copy_of_the_course) / "assignment" / "problems.toml"
    listed.write_text(listed.read_text().replace("preload = []", f'preload = ["{module}"]'))
    done = grader(
        *("grade", root / "examples" / "sample.zip", "--only", "linear"),
        *("--course", copy_of_the_course),
    )
    assert (done.returncode, done.stdout) == (3, "")
    assert "fault of the course" in done.stderr
    assert f"problems.toml: preload: {module} cannot be imported: " in done.stderr
