"""What public tests tell of known mistakes, and what a surprise in the hidden tests costs."""

import pytest

from grader.course import courses
from grader.course.courses import sources_in
from grader.grading.local_student import LocalBox
from grader.proof import public, sentences
from grader.proof.kinds import Row
from grader.proof.matrices import Matrix
from tests.grader import small_courses


@pytest.fixture
def course(tmp_path):
    """A course without torch, with one public test per problem."""
    return courses.load(small_courses.plain_python(tmp_path / "course"))


@pytest.fixture
def box():
    """The place in which solutions are run."""
    made = LocalBox()
    yield made
    made.close()


def changed(course, old, new):
    """The sources of the reference with one change."""
    sources = sources_in(course.reference)
    text = sources["assignment/words.py"].decode()
    assert old in text
    return sources | {"assignment/words.py": text.replace(old, new, 1).encode()}


def test_the_first_public_test_that_a_solution_fails_is_named(course, box):
    """The reference passes; a mistake fails by a value or by an exception; another one passes."""
    problem = course.problem("count_words")

    def told(old, new):
        return public.first_failure(course, problem, box, changed(course, old, new))

    assert told("lower", "lower") == ""
    assert told("+ 1", "+ 2").startswith("test_the_example: count_words · count_words: wrong ")
    assert "NameError" in told("text.lower", "words.lower")
    assert told("split()", 'split(" ")') == ""  # the example has no two blanks


def test_a_problem_without_public_tests_tells_nothing(course, box):
    """Nothing fails where nothing is tested."""
    problem = course.problem("count_words")
    (course.tests / "public" / "test_count_words.py").unlink()
    wrong = changed(course, ".lower()", "")
    assert public.first_failure(course, problem, box, wrong) == ""


def test_an_unreadable_public_test_is_no_success(course, box):
    """A file that cannot be imported is reported."""
    problem = course.problem("count_words")
    (course.tests / "public" / "test_count_words.py").write_text("import no_such_module\n")
    told = public.first_failure(course, problem, box, sources_in(course.reference))
    assert told.startswith("test_count_words.py: ")


@pytest.mark.parametrize(
    ("docstring", "error", "is_promised"),
    [
        ("Raises:\n        ValueError: no words.", "ValueError", True),
        ("Raises:\n        ValueError: no words.", "(ValueError, KeyError)", True),
        ("Raises:\n        ValueError: no words.", "Exception", True),
        ("Raises:\n        ValueError: no words.", "KeyError", False),
        ("Nothing is said.", "Exception", False),
        ("Nothing is said.", "ZeroDivisionError", False),
    ],
)
def test_a_public_test_expects_only_what_the_stub_names(course, docstring, error, is_promised):
    """An exception that no docstring names surprises whoever wrote the function from it."""
    path = course.reference / "words.py"
    path.write_text(
        path.read_text().replace("have a mean of 2.", f"have a mean of 2.\n\n    {docstring}")
    )
    test = course.tests / "public" / "test_mean_length.py"
    test.write_text(
        "from kit import expect\n\n\ndef test_no_words(student):\n"
        f"    with expect.raises({error}, of='mean_length', when='there are no words'):\n"
        "        student.words.mean_length([])\n"
    )
    found = list(public.unpromised(course, course.problems))
    assert [text.partition(": it ")[0] for text in found] == [f"{test}:5"] * (not is_promised)


def test_a_block_that_raises_its_own_exception_refuses_nothing(course):
    """That an exception comes through is no promise to raise it."""
    test = course.tests / "public" / "test_count_words.py"
    test.write_text(
        "from kit import expect\n\n\ndef test_it(student):\n"
        "    with expect.raises(OSError, of='count_words', when='it is raised inside'):\n"
        "        raise OSError\n"
    )
    assert list(public.unpromised(course, course.problems)) == []


def test_the_exceptions_of_a_class_are_those_of_its_methods():
    """A docstring of any method counts for the class."""
    source = "class A:\n    def f(self):\n        'Raises:\\n    ValueError: no.'\n"
    assert sentences.raised_by(source, "A") == sentences.raised_by(source, "A.f") == {"ValueError"}
    assert sentences.raised_by(source, "B") == set()


def row(name, told, price):
    """A known mistake that some public test fails, or none."""
    return Row("p", "wrong", name, 0, 1.0, 2.0, ["test_x"], "", price=price, told=told)


def test_surprises_are_sorted_by_their_price_and_a_course_may_limit_them():
    """Without a limit they are only listed; a mistake that a public test fails is no surprise."""
    matrix = Matrix(rows=[row("cheap", "", 0.1), row("dear", "", 0.6), row("told", "test_y", 2.0)])
    assert [r.name for r in matrix.surprises()] == ["dear", "cheap"]
    assert matrix.complaints() == []
    matrix.green_may_lose = 0.5
    (complaint,) = matrix.complaints()
    assert complaint.startswith("p · wrong dear: it passes all public tests and loses 0.600 points")
    matrix.green_may_lose = 0.6
    assert matrix.complaints() == []


def test_no_solution_changes_the_tests_of_the_next_one(course, box):
    """A constant of the public tests that one solution has changed is as before for the next."""
    problem = course.problem("mean_length")
    test = course.tests / "public" / "test_mean_length.py"
    test.write_text(
        "from kit import expect\n\nWORDS = ['a', 'bcd']\n\n\ndef test_shared(student):\n"
        "    expect.number(student.words.mean_length(WORDS), 2, of='mean_length', tolerance=0)\n"
    )
    wrong = changed(course, "sum(map(len, words)) / len(words)", "len(words.pop())")
    told = [
        public.first_failure(course, problem, box, sources)
        for sources in (wrong, sources_in(course.reference))
    ]
    assert [bool(text) for text in told] == [True, False]
