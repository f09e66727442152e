"""Courses without torch, in an environment in which torch is not installed at all."""

import json
import re
import shutil
import sys
import venv
import zipfile
from pathlib import Path

import pytest

from grader.base.errors import UsageError
from grader.course import courses
from grader.sandbox.sandbox import Sandbox
from tests.grader import small_courses
from tests.grader.conftest import ROOT, changed
from tests.grader.in_the_sandbox import LEVELS
from tests.grader.processes import ran
from tests.grader.sampling import every

pytestmark = pytest.mark.slow

# What the environment lacks: torch, and whatever else needs NumPy when it is imported.
TORCH = ("torch", "torchgen", "functorch", "einops", "jaxtyping")
IMPORTED = re.compile(r"^import time:.*\| +(torch|numpy)$", re.MULTILINE)


def environment_without(folder, *packages):
    """The Python of a new environment with everything that ours has installed but these."""
    venv.create(folder, symlinks=True)
    (theirs,) = folder.glob("lib/python*/site-packages")
    (ours,) = {Path(path) for path in sys.path if path.endswith("/site-packages")}
    for path in ours.iterdir():
        if path.name.split("-")[0] not in packages and path.suffix != ".pth":
            (theirs / path.name).symlink_to(path)
    folder.chmod(0o755)
    return folder / "bin" / "python"


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    """A Python without torch and NumPy, and the course of `grader new --plain`."""
    python = environment_without(tmp_path_factory.mktemp("plain") / "venv", *TORCH, "numpy")
    return python, small_courses.plain_python(tmp_path_factory.mktemp("words"))


@pytest.fixture(scope="module")
def with_numpy(tmp_path_factory):
    """A Python without torch, and the course with NumPy."""
    python = environment_without(tmp_path_factory.mktemp("numpy") / "venv", *TORCH)
    return python, small_courses.with_numpy(tmp_path_factory.mktemp("rows"))


@pytest.fixture
def course(request):
    """The Python and the folder of one of the two courses."""
    return request.getfixturevalue(request.param)


def grader(python, *arguments, options=()):
    """Run `grader` with this Python, which has to succeed; return the completed process."""
    done = ran([python, *options, "-m", "grader", *arguments], cwd=ROOT)
    assert done.returncode == 0, done.stdout + done.stderr
    return done


def released(python, course, folder):
    """The folder that a student unpacks."""
    grader(python, "release", "student", "--course", course, folder / "student.zip")
    shutil.unpack_archive(folder / "student.zip", folder)
    return folder / "student"


def handed_in(course, folder, old="", new=""):
    """The reference as a submission, changed in one place."""
    given = shutil.copytree(course / "solutions" / "reference", folder / "assignment").parent
    for path in (given / "assignment").iterdir():
        path.write_text(path.read_text().replace(old, new) if old else path.read_text())
    return given


@pytest.mark.parametrize("isolation", every(2, LEVELS))
@pytest.mark.parametrize(
    ("course", "points", "old", "new"),
    every(2, [("plain", 4, ".lower()", ""), ("with_numpy", 3, "np.maximum(x, 0.0)", "np.abs(x)")]),
    indirect=["course"],
)
def test_such_a_course_is_graded(course, points, old, new, isolation, tmp_path):
    """To name a known mistake, the tests run again in the grader's own process."""
    python, folder = course
    missing = ran([python, "-c", "import torch"]).stderr
    assert "No module named 'torch'" in missing
    given = handed_in(folder, tmp_path / "given")
    options = ("--isolation", isolation, "--json", tmp_path / "r.json")
    grader(python, "grade", "--course", folder, given, *options)
    result = json.loads((tmp_path / "r.json").read_text())
    assert points == sum(problem["score"] for problem in result["problems"])
    assert ["python"] == list(result["grader"]["environment"])
    wrong = handed_in(folder, tmp_path / "wrong", old, new)
    done = grader(python, "grade", "--course", folder, wrong, *options)
    assert "looks like " in done.stdout


@pytest.mark.proof
@pytest.mark.parametrize("course", ["plain", "with_numpy"], indirect=True)
def test_such_a_course_is_proved(course):
    """Junk, hostile values, other types and other arithmetic are tried, as far as they exist."""
    python, folder = course
    grader(python, "stubs", "--course", folder)
    done = grader(python, "validate", "--course", folder, "--jobs", 1)
    kinds = ("constant answers", "hostile value in an answer", "with other types")
    assert all(kind in done.stdout for kind in kinds)
    assert "public tests: as required" in done.stdout


@pytest.mark.parametrize("course", every(2, ["with_numpy", "plain"]), indirect=True)
def test_students_check_their_work(course, tmp_path):
    python, folder = course
    student = released(python, folder, tmp_path)
    assert "torch" not in (student / "pyproject.toml").read_text()
    for path in (folder / "solutions" / "reference").iterdir():
        shutil.copy(path, student / "assignment")
    done = ran([python, "-m", "assignment"], cwd=student)
    assert done.returncode == 0, done.stderr


LEAKS = re.compile(r"torch|gpu|cuda|§|\bsection|device_", re.IGNORECASE)


@pytest.mark.proof
def test_a_plain_course_says_nothing_of_what_it_has_not(plain, tmp_path):
    """Its files, a student's bundle besides the kit, its command and reports name no such thing."""
    python, folder = plain
    said = [p.read_text() for p in folder.rglob("*.[pmt]*") if p.suffix != ".pyc"]
    student = released(python, folder, tmp_path)
    assert not [*student.glob("kit/gpu_stand_in*")]
    said += [path.read_text() for path in student.rglob("*.[pmt]*") if "kit" not in path.parts]
    changed(student / "assignment" / "words.py", "raise NotImplementedError", "return 5  #")
    for arguments in ((), ("--help",), ("check", "count_words"), ("check", "report")):
        done = ran([python, "-m", "assignment", *arguments], cwd=student)
        assert "Traceback" not in done.stderr
        said += [done.stdout, done.stderr]
    html, markdown = tmp_path / "r.html", tmp_path / "r.md"
    options = ("--html", html, "--markdown", markdown, "--annotations")
    done = grader(python, "grade", "--course", folder, student, *options)
    page = re.sub(r"<style.*?</style>|<[^>]*>", "", html.read_text(), flags=re.DOTALL)
    said += [done.stdout, done.stderr, page, markdown.read_text()]
    assert [] == [line for text in said for line in text.splitlines() if LEAKS.search(line)]


def test_neither_side_imports_what_the_course_does_not_list(tmp_path):
    """Where torch is installed, a course without it still costs no import of it."""
    course = small_courses.plain_python(tmp_path / "course")
    (course / "tests" / "probes" / "__init__.py").write_text(
        '"""Probes."""\n\nimport sys\n\n\ndef libraries(student):\n    """What is imported."""\n'
        "    student.words.mean_length(['a'])\n"
        "    return [name for name in ('torch', 'numpy') if name in sys.modules]\n"
    )
    hidden = course / "tests" / "hidden" / "mean_length" / "test_hidden.py"
    hidden.write_text(
        f"{hidden.read_text()}\n\n@pytest.mark.harm('crash')\ndef test_the_box(student):\n"
        "    from tests import probes\n\n"
        '    expect.value(student.run(probes.libraries), [], of="mean_length")\n'
    )
    given = handed_in(course, tmp_path / "given")
    done = grader(sys.executable, "grade", "--course", course, given, options=("-X", "importtime"))
    assert "mean_length  1.00 / 1  ████████████████    2/2  passed" in done.stdout
    assert "| grader.grading.grade" in done.stderr
    assert [] == IMPORTED.findall(done.stderr)


PROBE = """
from pathlib import Path


def count_corpus(student) -> dict[str, int]:
    return student.words.count_words(Path(__file__).with_name("corpus.txt").read_text())
"""
HIDDEN = """
import json
from pathlib import Path

from kit import expect
from tests import probes


def test_the_corpus(student):
    right = json.loads(Path(__file__).with_name("right.json").read_text())
    expect.value(student.run(probes.count_corpus), right, of="count_words")
"""


def test_the_data_and_the_packages_of_a_course_go_where_its_tests_go(typed, tmp_path):
    """Students get the data of probes, Gradescope those of hidden tests, too."""
    course = small_courses.plain_python(tmp_path / "course")
    data = {"probes/corpus.txt": "a B a", "hidden/count_words/right.json": '{"a": 2, "b": 1}'}
    code = {"probes/__init__.py": PROBE, "hidden/count_words/test_hidden.py": HIDDEN}
    for name, text in {**data, **code}.items():
        (course / "tests" / name).write_text(text)
    changed(course / "assignment/problems.toml", "packages = []", 'packages = ["filelock>=3"]')
    given = handed_in(course, tmp_path / "given")
    code, shown, said = typed("grade", "--course", course, given)
    assert (0, True) == (code, "count_words  1.00 / 1" in shown), shown + said
    found = {}
    for kind in ("student", "gradescope"):
        assert 0 == typed("release", kind, "--course", course, tmp_path / "out.zip")[0]
        with zipfile.ZipFile(tmp_path / "out.zip") as archive:
            found |= {f"{kind}/{name}": archive.read(name).decode() for name in archive.namelist()}
    assert "student/student/tests/probes/corpus.txt" in found
    assert not [name for name in found if name.startswith("student") and "hidden" in name]
    assert '["filelock>=3", "pytest>=8.2"]' in found["student/student/pyproject.toml"]
    assert "gradescope/course/tests/hidden/count_words/right.json" in found
    assert "gradescope/course/tests/probes/corpus.txt" in found
    needed = found["gradescope/requirements.txt"]
    assert "filelock==" in needed
    assert "torch" not in needed


@pytest.mark.parametrize("isolation", every(2, LEVELS))
def test_a_submission_that_imports_what_the_course_does_not_list(isolation, typed, tmp_path):
    """It is told the name of the module, also where the grader has it."""
    course = small_courses.plain_python(tmp_path / "course")
    given = handed_in(course, tmp_path / "given")
    for path in (given / "assignment").iterdir():
        path.write_text(f"import numpy\n{path.read_text()}")
    code, shown, _ = typed("grade", "--course", course, given, "--isolation", isolation)
    assert (0, True) == (code, "No module named 'numpy'" in shown)
    assert "score 0.00 of 4" in shown


def test_a_course_without_torch_uses_no_gpu(tmp_path):
    """One sentence names the file that lists the packages."""
    course = courses.load(small_courses.plain_python(tmp_path))
    said = "--device cuda: tests use a GPU through torch, which is not among the packages of "
    with pytest.raises(UsageError, match=f"^{re.escape(said)}{re.escape(str(tmp_path))}"):
        Sandbox.of(course, isolation="none", gpu=object())


PLAIN_CODEC = """
import sys
from kit.student import watching_generators
from grader.grading.local_student import as_data
from grader.wire import protocol

value = {"a": [1, 2.5, None, b"x", "text", (True, 10**40)]}
assert as_data(value) == value
large = b"x" * 2**20
assert as_data([large, b""]) == [large, b""]
for tree in TREES:
    head = ('{"%s": %s}' % tree).encode()
    try:
        protocol.decode(head, memoryview(bytearray(64)))
    except protocol.ProtocolError as e:
        print(e)
assert not {"torch", "numpy"} & set(sys.modules)
with watching_generators() as changed:
    import numpy
print(changed)
"""
TREES = [("tensor", "[1, 0, 2]"), ("view", "[1, 0, 0, 16, 2, 1]"), ("dtype", '"float32"')]
TREES += [("array", '["<f4", [2], 0, 8]')]


def test_a_frame_imports_nothing_and_an_import_of_numpy_changes_no_generator():
    """A library that the code imports while its generators are watched was not watched before.

    Decoding a frame imports nothing.
    """
    done = ran([sys.executable, "-c", PLAIN_CODEC.replace("TREES", repr(TREES))], cwd=ROOT)
    said = "a value of {0} arrived where {0} is not imported".format
    told = [said(library) for library in ("torch", "torch", "torch", "numpy")]
    assert (done.stderr, done.stdout.splitlines()) == ("", [*told, "[]"])
