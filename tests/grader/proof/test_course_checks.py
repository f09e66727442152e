"""What `grader validate` says of a course whose author has made a mistake."""

import re
import sys

import pytest

from grader.course import courses
from grader.course.courses import sources_in
from grader.proof import course_checks, public_tests
from tests.grader import small_courses
from tests.grader.conftest import changed
from tests.grader.warm_python import python


@pytest.fixture
def lists(tmp_path, monkeypatch):
    """The same course without torch, for tests that run it."""
    monkeypatch.setattr(sys, "executable", python())
    return small_courses.with_lists(tmp_path / "lists")


LISTED = "assignment/problems.toml"
SOLVED = "solutions/reference/activations.py"
HIDDEN = "tests/hidden/relu/test_hidden.py"
# What the author changes: a file, a text in it and the new text; and the sentence about it.
CHANGED = [
    (LISTED, '["softmax"]', '["softmx"]',
     r"problems.toml:\d+: problem softmax: functions: expected names that .*activations.py "
     r"defines \(relu, softmax\); got 'softmx'; did you mean softmax\?"),
    (LISTED, 'module = "activations"', 'module = "activation"',
     r"problems.toml:\d+: problem relu: expected its reference solution: "
     r".*reference/activation.py cannot be read: No such file or directory"),
    (LISTED, '"torch.relu"', '"torch.rellu"',
     r"problem relu: forbidden: expected the name of a .* or operator; there is no torch.rellu"),
    (LISTED, '"torch.relu"', '"relu"', r"forbidden: .*there is no relu; did you mean torch.relu\?"),
    (LISTED, '"torch.relu"', '"np.convolve"', r"no np.convolve; did you mean numpy.convolve\?"),
    (LISTED, '"torch.relu"', '"sorteD"', r"there is no sorteD; did you mean sorted\?"),
    (LISTED, "points = 1", 'points = 1\ndeclined = {"wrong absolute" = "so"}',
     r"problem relu: declined: expected one of junk, .*, and the name of a trial; got 'wrong"),
    (SOLVED, "def relu(", "def relu((",
     r"problem relu: expected its reference solution: .*.py:\d+: this is not Python: "),
    (SOLVED, "SOLUTION(relu)", "SOLUTION(rellu)",
     r"activations.py, line \d+: a solution is marked as rellu, .*; did you mean relu\?"),
    (SOLVED, "# END SOLUTION", "# END OF SOLUTION",
     r"activations.py, line \d+: a region begins before the region of relu, which begins in "
     r"line \d+, has its END SOLUTION"),
    (SOLVED, "keepdim=True)\n    # END SOLUTION", "keepdim=True)",
     r"activations.py, line \d+: the region of softmax has no END SOLUTION"),
    (SOLVED, '"""', '"""New. ',
     r"assignment/activations.py differs from its reference: run `grader stubs`"),
    (HIDDEN, "def test_", "def (test_", r"hidden/relu/test_hidden.py:\d+: this is not Python: "),
]  # fmt: skip
# A file that the author writes, or removes; and the sentence about it.
WRITTEN = [
    (HIDDEN, None, r"problem relu: expected its hidden tests in .*relu/test_hidden.py; there is"),
    (HIDDEN, b"\xff\xfe", r"hidden/relu/test_hidden.py is not UTF-8 text"),
    ("tests/public/test_relu.py", None,
     r"problems.toml:\d+: problem relu: expected its public tests in .*test_relu.py; there is"),
    (SOLVED, None, r"relu: expected its reference solution: .*activations.py cannot be read"),
    ("tests/probes/one.py", b"x = 1\n\0", r"probes/one.py.*: this is not Python: "),
    ("tests/hidden/softmx/wrong.edits", b"",
     r"hidden/softmx: problems.toml lists no problem 'softmx'; did you mean softmax\?"),
    ("tests/hidden/test_softmax.py", b"",
     r"hidden/test_softmax.py: expected test_hidden.py, .* in a folder named like its problem"),
    ("tests/hidden/gelu/test_hidden.py", b"", r"gelu: problems.toml lists no problem 'gelu'"),
    ("tests/hidden/Softmax/right.py", b"",
     r"hidden/Softmax: problems.toml lists no problem 'Softmax'; did you mean softmax\?"),
]  # fmt: skip


def is_told(said, folder):
    found = list(course_checks.wrong_names(courses.load(folder)))
    assert [sentence for sentence in found if re.search(said, sentence)], found


@pytest.mark.parametrize(("file", "old", "new", "said"), CHANGED)
def test_a_name_that_fits_nothing_is_one_sentence(tiny, file, old, new, said):
    changed(tiny / file, old, new)
    is_told(said, tiny)


@pytest.mark.parametrize(("file", "content", "said"), WRITTEN)
def test_a_file_that_is_missing_or_fits_nothing_is_one_sentence(tiny, file, content, said):
    path = tiny / file
    if content is None:
        path.unlink()
    else:
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(content)
    is_told(said, tiny)


def test_the_example_has_no_such_mistake(tiny):
    """Nor is it one to forbid a package that is not there: a submission cannot import it either."""
    assert list(course_checks.wrong_names(courses.load())) == []
    changed(tiny / LISTED, '"torch.relu"', '"no_such_package", "no_such_package.encode", "torch"')
    assert list(course_checks.wrong_names(courses.load(tiny))) == []


@pytest.mark.parametrize(
    ("classes", "share"), [(("crash", "crash"), 0), (("wrong number", "crash", "crash"), 50)]
)
def test_points_depend_on_what_hurts(tiny, classes, share):
    """Tests of the two dearest classes carry 60 %, unless the course declines that."""
    course = courses.load(tiny)
    assert list(course_checks.light_harm(course, course.problems)) == []
    tests = [f"@pytest.mark.harm({c!r})\ndef test_{i}(): ...\n" for i, c in enumerate(classes)]
    (tiny / HIDDEN).write_text("".join(tests))
    (said,) = course_checks.light_harm(course, course.problems)
    dearest = "harm('trains worse' or 'wrong number')"
    assert said == f"relu: tests marked {dearest} have {share} % of its points, expected 60"
    changed(tiny / LISTED, "points = 1", 'points = 1\ndeclined = {"harm" = "one formula"}')
    course = courses.load(tiny)
    assert list(course_checks.light_harm(course, course.problems)) == []


@pytest.mark.slow
def test_public_tests_are_tried_on_the_reference_and_on_stubs(lists):
    public, course = lists / "tests/public", courses.load(lists)
    changed(public / "test_relu.py", "def test_", "def test_one():\n    pass\n\n\ndef test_")
    changed(public / "test_softmax.py", "0.5]", "0.6]")
    passes, fails = course_checks.public_tests(course, course.problems)
    assert "test_relu::test_one passes with stubs" in passes
    assert "test_softmax::test_the_worked_example with the reference: " in fails
    changed(public / "test_relu.py", "from kit", "from nowhere")
    told = list(course_checks.public_tests(course, course.problems[:1]))
    said = r"stubs: they do not run: ModuleNotFoundError: .*nowhere"
    assert [sentence for sentence in told if re.search(said, sentence)], told


def test_public_tests_leave_no_bytecode(tmp_path, monkeypatch):
    """A stub and its reference of one size, written within one second, would have the same."""
    monkeypatch.delenv("PYTHONDONTWRITEBYTECODE", raising=False)
    (tmp_path / "stub.py").touch()
    assert course_checks._python(["-c", "import stub"], tmp_path).returncode == 0
    assert [path.name for path in tmp_path.iterdir()] == ["stub.py"]


@pytest.mark.slow
def test_both_bundles_are_built(lists):
    """A file that the tests need and the zip lacks is noticed, and so is a secret line."""
    course = courses.load(lists)
    secret = next(line for line in (lists / SOLVED).read_text().splitlines() if "math.exp" in line)
    (lists / "handout" / "leak.md").write_text(secret)
    (found,) = course_checks.public_tests(course, course.problems)
    assert "did not run, because of `grader release student`: 1 secret line would" in found
    needs = "import pathlib\n\nassert pathlib.Path('handout/leak.txt').is_file()\n\nimport pytest\n"
    changed(lists / HIDDEN, "import pytest\n", needs)
    (found,) = course_checks.gradescope(course)
    assert found.startswith("release gradescope: its autograder gives the reference None of 3")


@pytest.mark.proof
def test_a_requirement_can_be_declined_with_a_reason(grader, lists):
    """Without the reason it is a complaint, and a reason without need is one, too."""

    def complaints(only):
        options = ("--course", lists, "--only", only, "--jobs", 1)
        done = grader("validate", *options, warm=False)
        return [line for line in done.stderr.splitlines() if not line.startswith("validating:")]

    changed(lists / HIDDEN, "[rng.gauss(0, 1) for _ in range(9)]", "[1.0, 2.5]")
    changed(lists / "tests/hidden/relu/wrong.edits", "abs(n)", "-n")
    reason = '"words" = "the test is about positive numbers"'
    changed(lists / LISTED, "points = 1", f"points = 1\ndeclined = {{{reason}}}")
    passes, unneeded, how = complaints("relu")
    assert "relu · junk the first argument" in passes
    assert "relu: declined: 'words' is met, so remove it" == unneeded
    assert how.startswith("where the course is right and the requirement is not, ")
    changed(lists / LISTED, '"words" =', '"junk" =')
    assert complaints("relu") == []


@pytest.mark.proof
def test_a_weekly_exercise_needs_no_mistakes_and_no_reasons(grader, lists):
    """A light run tries what costs the author nothing, and finds a test that proves nothing."""
    for path in lists.glob("tests/hidden/*/wrong.edits"):
        path.unlink()
    changed(lists / "tests/hidden/softmax/test_hidden.py", "# Stays:", "#")
    done = grader("validate", "--course", lists, "--light", "--jobs", 1)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "the zip for Gradescope: as required" in done.stdout
    assert re.search(r"\d+ mutants, \d+ noticed", done.stdout)
    changed(lists / HIDDEN, "for _ in range(9)]", "for _ in range(0)]")
    done = grader("validate", "--course", lists, "--light", "--only", "relu", "--jobs", 1)
    assert done.returncode == 1
    assert "relu · junk an empty list" in done.stderr


# --- what public tests tell of known mistakes, and what a surprise in the hidden tests costs ------


@pytest.fixture
def course(tmp_path):
    """A course without torch, with one public test per problem."""
    return courses.load(small_courses.plain_python(tmp_path / "course"))


def edited(course, old, new):
    """The sources of the reference with one change."""
    sources = sources_in(course.reference)
    text = sources["assignment/words.py"].decode()
    assert old in text
    return sources | {"assignment/words.py": text.replace(old, new, 1).encode()}


def test_the_first_public_test_that_a_solution_fails_is_named(course, box):
    """The reference passes; a mistake fails by a value or by an exception; another one passes.

    A test that cannot be read is no success; without tests, nothing is told.
    """
    problem = course.problem("count_words")

    def told(old, new):
        return public_tests.first_failure(course, problem, box, edited(course, old, new))

    assert told("lower", "lower") == ""
    assert told("+ 1", "+ 2").startswith("test_the_example: count_words · count_words: wrong ")
    assert "NameError" in told("text.lower", "words.lower")
    assert told("split()", 'split(" ")') == ""  # the example has no two blanks
    test = course.tests / "public" / "test_count_words.py"
    test.write_text("import no_such_module\n")
    assert told("lower", "lower").startswith("test_count_words.py: ")
    test.unlink()
    assert told("+ 1", "+ 2") == ""


RAISES = "Raises:\n        ValueError: no words."
REFUSES = """
from kit import expect

def test_it(student):
    with expect.raises({error}, of="mean_length", when="there are no words"):
        {does}
"""
CALL = "student.words.mean_length([])"


@pytest.mark.parametrize(
    ("docstring", "error", "does", "is_promised"),
    [
        (RAISES, "ValueError", CALL, True),
        (RAISES, "(ValueError, KeyError)", CALL, True),
        (RAISES, "Exception", CALL, True),
        (RAISES, "KeyError", CALL, False),
        ("Nothing is said.", "Exception", CALL, False),
        ("Nothing is said.", "ZeroDivisionError", CALL, False),
        ("Nothing is said.", "OSError", "raise OSError", True),  # that it comes through
    ],
)
def test_a_public_test_expects_only_what_the_stub_names(
    course, docstring, error, does, is_promised
):
    """An exception that no docstring names surprises whoever wrote the function from it."""
    changed(course.reference / "words.py", "mean of 2.", f"mean of 2.\n\n    {docstring}")
    test = course.tests / "public" / "test_mean_length.py"
    test.write_text(REFUSES.format(error=error, does=does))
    found = list(public_tests.unpromised(course, course.problems))
    assert [text.partition(": it ")[0] for text in found] == [f"{test}:5"] * (not is_promised)


def test_the_exceptions_of_a_class_are_those_of_its_methods():
    source = "class A:\n    def f(self):\n        'Raises:\\n    ValueError, OddException: no.'\n"
    named = {"ValueError", "OddException"}
    assert public_tests.raised_by(source, "A") == public_tests.raised_by(source, "A.f") == named
    assert public_tests.raised_by(source, "B") == set()


def test_no_solution_changes_the_tests_of_the_next_one(course, box):
    """A constant of the public tests that one solution has changed is as before for the next."""
    problem = course.problem("mean_length")
    test = course.tests / "public" / "test_mean_length.py"
    test.write_text(
        "from kit import expect\n\nWORDS = ['a', 'bcd']\n\n\ndef test_shared(student):\n"
        "    expect.number(student.words.mean_length(WORDS), 2, of='mean_length', tolerance=0)\n"
    )
    wrong = edited(course, "sum(map(len, words)) / len(words)", "len(words.pop())")
    assert public_tests.first_failure(course, problem, box, wrong)
    assert not public_tests.first_failure(course, problem, box, sources_in(course.reference))
