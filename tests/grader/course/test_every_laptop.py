"""The student's bundle on systems that are not here: without what Windows lacks, in cp1252."""

import os
import re
import shutil
import signal
import subprocess
from pathlib import Path

import pytest

from grader.course import courses
from grader.publish import student_bundle
from tests.grader.conftest import changed
from tests.grader.processes import until
from tests.grader.sampling import every
from tests.grader.warm_python import python

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("bundle")]

COURSE = courses.load()
LIKE_WINDOWS = Path(__file__).parent / "like_windows"
FOLDER = "Mes Études ü [2]"  # pytest reads brackets in an argument as a test's parameters
SMALL_FLIGHT = ["fly", "--size", "egg", "--steps", "2", "--batch", "2"]


@pytest.fixture(scope="module")
def bundle():
    """The files of the bundle, without the built handout."""
    return student_bundle.student(COURSE, None)


@pytest.fixture
def work(tmp_path, bundle):
    """The bundle, unpacked."""
    for path, content in bundle.items():
        (tmp_path / FOLDER / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / FOLDER / path).write_bytes(content)
    return tmp_path / FOLDER


@pytest.fixture
def solved(work, root):
    for path in (root / "grader/solutions/reference").glob("*.py"):
        shutil.copy(path, work / "assignment")
    return work


def start(folder, *arguments, module="assignment"):
    """Start a command in an interpreter that lacks what Windows lacks."""
    environment = {**os.environ, "PYTHONPATH": str(LIKE_WINDOWS), "PYTHONIOENCODING": "cp1252"}
    environment["PYTEST_DEBUG_TEMPROOT"] = str(folder)  # without old folders to delete, slowly
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "encoding": "cp1252"}
    command = [python(), "-m", module, *arguments]
    return subprocess.Popen(command, cwd=folder, env=environment, **pipes)


def assignment(folder, *arguments):
    with start(folder, *arguments) as process:
        output, _ = process.communicate(timeout=600)
        return process.returncode, output


def change(folder, statement):
    """Run a statement in the forward pass of the linear layer."""
    changed(folder / "assignment/linear.py", "return x @ self.weight.T", statement)


@pytest.mark.parametrize("one_in", every(2, [7, 1]))
def test_check_and_submit_work_without_what_windows_lacks(solved, one_in):
    problems = [problem.id for problem in COURSE.problems if problem.id != "linear"][::one_in]
    code, output = assignment(solved, "check", "--all", "linear", *problems)
    assert code == 0, output
    number = 1 + len(problems)
    assert f"\n{number} of {number} problems done, " in output
    assert re.search(r"^linear +4 points  #{16}  (\d+)/\1 +done$", output, re.MULTILINE)
    code, output = assignment(solved, "submit")
    assert code == 0, output
    assert (solved / "submission.zip").is_file()


@pytest.mark.proof
def test_a_flight_works_without_what_windows_lacks(solved):
    code, output = assignment(solved, *SMALL_FLIGHT)
    assert code == 0, output
    assert re.search(r"^FLOPs of a step +(\S+) +\1 +1$", output, re.MULTILINE)


def test_help_can_be_printed(work):
    """The help of `fly` has a character that cp1252 lacks."""
    code, output = assignment(work, "fly", "--help")
    assert code == 0, output
    assert "AdamW with a ?1 of 0" in output


@pytest.mark.proof
def test_a_crash_has_its_line_and_ends_no_other_problem(work, root):
    """The path has characters that Python escapes; the next command would be too long."""
    for name in ("linear", "optimizers"):
        shutil.copy(root / f"grader/solutions/reference/{name}.py", work / "assignment")
    change(work, "import os; os.abort()")
    code, output = assignment(work, "check")
    assert code == 1, output
    said = r"^linear: the test process ended unexpectedly \(signal 6\)\n"
    said += r"  at        assignment/linear\.py:\d+ in (Linear\.)?forward$"
    assert re.search(said, output, re.MULTILINE), output
    assert re.search(r"^adamw +\d+ points .* done$", output, re.MULTILINE), output


def test_ctrl_c_stops_where_no_signal_can_be_sent(solved):
    """The process of the tests is ended if it does not end by itself."""
    change(solved, 'open("started", "w").close()\n        __import__("time").sleep(999)')
    with start(solved, "check", "linear") as process:
        until((solved / "started").exists)
        process.send_signal(signal.SIGINT)  # to this process alone
        output, _ = process.communicate(timeout=600)
        assert process.returncode == 130, output
    assert re.search(r"^stopped", output, re.MULTILINE), output
    assert "Traceback" not in output


def test_the_interpreter_lacks_what_it_should(tmp_path):
    statements = {
        "import os; os.fork()": "AttributeError",
        "import fcntl": "ModuleNotFoundError",
        "import resource": "ModuleNotFoundError",
        "import signal; signal.SIGALRM": "AttributeError",
        "import subprocess as s, sys; s.run([sys.executable, '-c', '#' * 33000])": "OSError",
        "f = open('a', 'w'); import os; os.remove('a')": "PermissionError",
        "open('b', 'w').write('█')": "UnicodeEncodeError",
        "print('█')": "UnicodeEncodeError",
        "import multiprocessing as m; m.get_context('fork').Process(target=int).start()": "Error",
    }
    program = f"for one in {list(statements)!r}:\n    try:\n        exec(one)\n"
    program += "    except Exception as e:\n        print(type(e).__name__)\n"
    (tmp_path / "program.py").write_text(program, encoding="utf-8")
    with start(tmp_path, module="program") as process:
        output, _ = process.communicate(timeout=600)
    for said, error in zip(output.split(), statements.values(), strict=True):
        assert said.endswith(error), output
