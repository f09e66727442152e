"""A variant's fragment replaces the definitions that it contains, and changes nothing else."""

import ast
import re

import pytest

from grader.base.errors import CourseFault
from grader.course import courses
from grader.solutions import fragments, known_mistakes
from grader.solutions.fragments import Fragment, lines_of
from tests.grader.sampling import every

COURSE = courses.load()

REFERENCE = '''\
"""A module."""

import math

LIMIT = 3


@math.cos.__class__
def first(x):
    """One."""
    return x


class Second:
    """Two."""

    def method(self):
        return 2


def third():
    return 3
'''


def fragment(source):
    """A fragment with this source after its docstring."""
    return Fragment(problem="p", name="name", source=f'"""Summary."""\n{source}')


def test_imports_and_helpers_come_before_the_first_replacement():
    """A decorator or a default value can therefore use them; helpers keep their order."""
    others = "HALF = 0.5\n\n\ndef helper():\n    return HALF\n\n\n"
    second = "class Second:\n    x = helper()\n"
    got = fragment(f"import cmath\n\n{others}{second}").applied_to(REFERENCE)
    before, after = REFERENCE.split("class Second")[0], "\n\ndef third():\n    return 3\n"
    assert f"{before}import cmath\n\n\n{others}{second}{after}" == got


def test_several_definitions_are_replaced_each_in_its_place():
    """A replacement brings its own decorators."""
    third = "@staticmethod\ndef third():\n    return 30\n"
    got = fragment(f"{third}\n\ndef first(x):\n    return 10\n").applied_to(REFERENCE)
    before, after = REFERENCE.split("@math")[0], REFERENCE[REFERENCE.index("\n\nclass Second") :]
    after = after.replace("def third():\n    return 3\n", third)
    assert f"{before}def first(x):\n    return 10\n{after}" == got


@pytest.mark.parametrize(
    "source", ["", "x = 1\n", "def fourth():\n    pass\n", "def method(self):\n    pass\n"]
)
def test_a_fragment_that_replaces_nothing_is_a_mistake(source):
    """It would be graded as the reference. A method is no definition of the module."""
    with pytest.raises(ValueError, match=r"^p/right\.py: name replaces no definition"):
        fragment(source).applied_to(REFERENCE)


def right_solutions(tmp_path, **texts):
    """The fragments of problems whose right.py has these texts."""
    for problem, text in texts.items():
        (tmp_path / problem).mkdir()
        (tmp_path / problem / "right.py").write_text(text)
    return fragments.load(tmp_path)


def test_fragments_are_read_from_a_file_per_problem(tmp_path):
    """Fragments are sorted by name; a heading may go on for lines, and name devices."""
    b = "# b\n\n\n# [z] Last,\n# at length.\n# device: cuda, cpu\nx = 1\n# [y] First.\ny = 2\n"
    got = right_solutions(tmp_path, b=b, a="# [x] Of a.\n\n# a comment\nz = 3\n")
    assert [
        ("a", "x", "\n# a comment\nz = 3\n", ()),
        ("b", "y", "y = 2\n", ()),
        ("b", "z", "x = 1\n", ("cuda", "cpu")),
    ] == [(f.problem, f.name, f.source, f.devices) for f in got]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("def f(): pass\n", "expected `# [name] its style` before the first solution"),
        ("x = 1\n# [y] Its style.\n", "expected `# [name] its style` before the first solution"),
        ("# [x] Wrong.\n# device: gpu\n", "x: expected device: cpu or cuda, got gpu"),
        ("# [x] One.\n\n# [x] Two.\n", "two solutions are called x"),
    ],
)
def test_a_file_that_hides_a_fragment_is_a_mistake(tmp_path, text, told):
    """Nothing would ever try such a fragment."""
    with pytest.raises(CourseFault, match=re.escape(f"a/right.py: {told}") + "$"):
        right_solutions(tmp_path, a=text)


def test_what_a_program_reaches():
    """What it changes and what uses that; if it runs a statement, everything."""
    used = REFERENCE + "\n\ndef fourth():\n    return third()\n"
    found = fragment("def third():\n    return 4\n")
    reached = [found.reaches([name], used) for name in ("third", "fourth", "first")]
    assert [True, True, False] == reached
    helper = fragment("LIMIT = 4\n\n\ndef third():\n    return 4\n")
    assert [True, False] == [helper.reaches([name], used) for name in ("LIMIT", "Second")]
    statement = fragment("print(LIMIT)\n\n\ndef third():\n    return 4\n")
    assert statement.reaches(["Second"], used)


@pytest.mark.parametrize("problem", every(3, COURSE.problems), ids=lambda problem: problem.id)
def test_every_program_is_a_module_that_is_not_the_reference(problem):
    """It changes only definitions of its own problem, or adds helpers."""
    reference = COURSE.reference_of(problem)
    parsed = ast.parse(reference)
    dumped, before = ast.dump(parsed), definitions(parsed)
    helpers = {line.split("(")[0].split()[1].rstrip(":") for line in marked(reference, problem.id)}
    own = set(problem.functions) | helpers
    loaders = (fragments.load, known_mistakes.bases, known_mistakes.load)
    programs = [found for load in loaders for found in load(COURSE.hidden, problem.id)]
    wrong = []
    for found in programs:
        got = found.applied_to(reference)
        program = ast.parse(got)
        after = definitions(program)
        if after == before and ast.dump(program) == dumped:
            wrong.append(f"{found.name} is the reference")
        elif missing := sorted(set(before) - set(after)):
            wrong.append(f"{found.name} lacks {missing}")
        elif foreign := sorted({n for n in before if before[n] != after[n]} - own):
            wrong.append(f"{found.name} changes {foreign}")
        elif got.count("SOLUTION") > reference.count("SOLUTION"):
            wrong.append(f"{found.name} has marks of its own")
    assert len(programs) >= 11
    assert wrong == []
    # Without CUDA tests, nothing would try a mistake that only a CUDA device shows.
    devices = {device for found in programs for device in found.devices}
    assert devices <= COURSE.hidden_tests(problem).keys()


def marked(reference, problem):
    """The first lines of the helpers inside the marked solution of a problem."""
    lines = lines_of(reference, problem).values()
    return [line for line in lines if line.startswith(("def ", "class "))]


def definitions(module):
    """Map each definition of a module to a dump of its syntax tree, which ignores line numbers."""
    found = [node for node in module.body if isinstance(node, fragments.Definition)]
    return {node.name: ast.dump(node) for node in found}
