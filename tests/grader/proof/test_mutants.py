"""Automatic mutants and the matrix of tests and wrong solutions.

A mutant makes one observable change, inside the solution alone.
"""

import ast
import io

import pytest
from rich.console import Console

from grader.base.errors import CourseFault
from grader.course import courses
from grader.proof import matrix_report, mutants, result_matrix
from grader.proof.result_matrix import OF_GRADESCOPE, HiddenTest, Matrix
from grader.proof.trial_kinds import Row
from tests.grader.sampling import every

pytestmark = pytest.mark.slow

COURSE = courses.load()
REFERENCE = COURSE.reference

SOURCE = '''\
"""A module."""


def given(x):
    return x + 1


def f(x: int, *, flip: bool = False) -> int:
    """What it means: 2 + 2."""
    # BEGIN SOLUTION(linear)
    if x < 0 and not flip:
        raise ValueError(f"x must not be negative, got {x + 1}")
    if given(x):
        return None
    y = max(x * 2, 3, key=None)
    return -y if flip else y // 4
    # END SOLUTION


def g(x):
    # BEGIN SOLUTION(adamw)
    return x - 1
    # END SOLUTION
'''


def names(source=SOURCE, problem="linear"):
    return [mutant.name for mutant in mutants.of(source, problem)]


def test_each_kind_of_change_is_made():
    """Statements are removed, too, but not the value of `return None`."""
    assert set(names()) == {
        "f: if x < 0 and (not flip): | x < 0 and (not flip) -> x < 0 or not flip",
        "f: if x < 0 and (not flip): | x < 0 -> x <= 0",
        "f: if x < 0 and (not flip): | 0 -> 1",
        "f: if x < 0 and (not flip): | not flip -> flip",
        "f: raise ValueError(f'x must not be negative, got {x + 1}') -> pass",
        "f: y = max(x * 2, 3, key=None) -> pass",
        "f: y = max(x * 2, 3, key=None) | max(x * 2, 3, key=None) -> max(x * 2, 3)",
        "f: y = max(x * 2, 3, key=None) | x * 2 -> x / 2",
        "f: y = max(x * 2, 3, key=None) | 2 -> 3",
        "f: y = max(x * 2, 3, key=None) | 3 -> 4",
        "f: return -y if flip else y // 4 -> return",
        "f: return -y if flip else y // 4 | -y if flip else y // 4 -> -y",
        "f: return -y if flip else y // 4 | -y if flip else y // 4 -> y // 4",
        "f: return -y if flip else y // 4 | -y -> y",
        "f: return -y if flip else y // 4 | y // 4 -> y / 4",
        "f: return -y if flip else y // 4 | 4 -> 5",
    }


def test_a_mutant_is_of_its_own_problem_alone():
    """Given code, docstrings, annotations, defaults and error messages stay unchanged."""
    assert names(problem="adamw") == [
        "g: return x - 1 -> return",
        "g: return x - 1 | x - 1 -> x + 1",
        "g: return x - 1 | 1 -> 2",
    ]


def test_one_change_a_mutant():
    before = ast.unparse(ast.parse(SOURCE)).splitlines()
    for mutant in mutants.of(SOURCE, "linear"):
        after = mutant.source.splitlines()
        assert len(before) == len(after)
        assert sum(a != b for a, b in zip(before, after, strict=True)) == 1, mutant.name


def test_mutants_with_the_same_words_have_names_of_their_own():
    source = SOURCE.replace("y = max(x * 2, 3, key=None)", "y = x + x + 1\n    y = x + x + 1")
    found = names(source)
    assert len(found) == len(set(found))
    assert "f: y = x + x + 1 -> pass (2)" in found


@pytest.mark.parametrize("problem", every(8, COURSE.problems), ids=lambda p: p.id)
def test_every_solution_has_mutants_that_are_python(problem):
    found = mutants.of((REFERENCE / f"{problem.module}.py").read_text(), problem.id)
    assert found
    for mutant in found:
        compile(mutant.source, mutant.name, "exec")
    listed = mutants.listed(COURSE.mutants).get(problem.id, {})
    assert set(listed) <= {mutant.name for mutant in found}
    assert all(len(reason) > 10 for reason in listed.values())


# --- the matrix


def row(kind, name, failed, complaint="", share=0.0, *, problem="p", seed=0, points=2.0, **more):
    """One row of a problem; a wrong solution loses this share of its points."""
    return Row(problem, kind, name, seed, 1.0, points, failed, complaint, share, **more)


def hidden(**stays):
    """Core tests of a problem, each with its reason to stay in the suite."""
    return {test: HiddenTest(reason) for test, reason in stays.items()}


def test_an_idle_test_is_a_complaint():
    """No wrong solution fails it, or other tests make it redundant and nothing says why."""
    rows = [row("wrong", "w1", ["test_a"]), row("wrong", "w2", ["test_a", "test_b", "test_c"])]
    tests = hidden(test_a="", test_b="", test_c="for the message", test_d="a reason")
    matrix = Matrix(rows, {"p": tests})
    assert matrix.alone("p") == {"test_a": ["w1"], "test_b": [], "test_c": [], "test_d": []}
    assert matrix.complaints() == [
        "p · test_b: other tests catch everything that it catches; say why it stays, "
        "in a comment above the test (# Stays: …)",
        "p · test_d: no wrong solution fails it",
    ]


def test_reasons_are_read_from_the_line_above_a_test(tmp_path):
    """A reason may take several lines above the decorators; any other comment is not a reason.

    Tests that another file imports are described as where they are defined.
    """
    folder = tmp_path / "tests/hidden/p"
    folder.mkdir(parents=True)
    file = folder / "test_hidden.py"
    file.write_text(
        "import pytest\n\n# Stays: it tells\n# more than others.\n@pytest.mark.points(2)\n"
        "def test_a():\n    pass\n\n\n"
        "# A comment.\n@pytest.mark.harm('rare')\ndef test_b():\n    pass\n\n\n"
        "def helper():\n    pass\n\n\ndef test_c():\n    # Stays: inside\n    pass\n"
    )
    first, second = HiddenTest("it tells more than others."), HiddenTest("", "rare")
    found = {"test_a": first, "test_b": second, "test_c": HiddenTest()}
    assert result_matrix.tests_in(file) == found
    other = folder / "test_cuda.py"
    imports = "import torch\nfrom kit import expect\n"
    imports += "from tests.hidden.p.test_hidden import helper, test_a, test_b\n"
    other.write_text(f"{imports}\n\ndef test_d():\n    pass\n")
    found = {"test_a": first, "test_b": second, "test_d": HiddenTest()}
    assert result_matrix.tests_in(other) == found


def test_the_matrix_is_written_for_readers():
    """It has counts, what each test alone catches, survivors and complaints."""
    rows = [
        row("wrong", "w1", ["test_a"]),
        row("mutant", "m1", ["test_a"]),
        row("mutant", "m2", [], "p · mutant m2: unseen"),
    ]
    matrix = Matrix(rows, {"p": hidden(test_a="")})
    summary = matrix_report.summary(matrix)
    assert "2 mutants, 1 noticed (50.0 %), 0 listed as equivalent" in summary
    assert "1 wrong solution, 1 of 1 trials as required" in summary
    assert "not tried" not in summary
    text = matrix_report.as_markdown(matrix)
    assert "| test_a | 1 | w1 |  |" in text
    assert "- `m2`" in text
    assert "- p · mutant m2: unseen" in text


def test_surprises_are_sorted_by_their_price_and_a_course_may_limit_them():
    """Without a limit they are only listed; a mistake that a public test fails is no surprise."""
    prices = {"cheap": 0.1, "dear": 0.1 + 0.2, "told": 2.0}
    told = {"told": "test_y"}
    matrix = Matrix(
        [row("wrong", n, ["t"], price=p, told=told.get(n, "")) for n, p in prices.items()]
    )
    assert [r.name for r in matrix.surprises()] == ["dear", "cheap"]
    assert matrix.complaints() == []
    matrix.green_may_lose = 0.2
    (complaint,) = matrix.complaints()
    assert complaint.startswith("p · wrong dear: it passes all public tests and loses 0.300 points")
    matrix.green_may_lose = 0.3
    assert matrix.complaints() == []


def test_a_dear_mistake_says_why():
    prices = {"cheap": (0.33, ""), "dear": (0.5, ""), "whole": (1.0, "all of it follows")}
    rows = [
        row("wrong", name, ["test_a"], share=share, reason=reason)
        for name, (share, reason) in prices.items()
    ]
    matrix = Matrix(rows, {"p": hidden(test_a="")})
    assert matrix.complaints() == [
        "p · wrong dear: it costs 50 %; say in its entry why it is more than a slip (price: …), "
        "or make it cost less"
    ]
    summary = matrix_report.summary(matrix)
    assert "p · wrong whole costs 100 %: all of it follows" in summary.split("\n")
    assert "cheap" not in summary


def by_harm(**prices):
    """A matrix with a test of each class, and a mistake that each test alone catches."""
    names = {"worse": "trains worse", "number": "wrong number", "crash": "crash", "rare": "rare"}
    tests = {f"test_{name}": HiddenTest("", harm, 1) for name, harm in names.items()}
    rows = [row("wrong", n, [f"test_{n}"], share=0.1, price=price) for n, price in prices.items()]
    return Matrix(rows, {"p": tests})


@pytest.mark.parametrize(
    ("prices", "complaints"),
    [
        ({"worse": 0.4, "number": 0.2, "crash": 0.4, "rare": 0.2}, []),
        ({"worse": 0.4, "number": 0.2, "crash": 0.5, "rare": 0.3}, [
            "p · wrong crash (crash): it costs 0.50 points, more than worse (trains worse), 0.40; "
            "let it fail fewer tests, or look at their classes of harm",
            "p · wrong rare (rare): it costs 0.30 points, more than number (wrong number), 0.20; "
            "let it fail fewer tests, or look at their classes of harm",
        ]),
        ({"crash": 0.5, "rare": 0.6}, []),
    ],
)  # fmt: skip
def test_what_hurts_less_costs_no_more(prices, complaints):
    """A minor mistake costs at most what the cheapest serious one costs, a crash the dearest."""
    said = [text for text in by_harm(**prices).complaints() if "more than" in text]
    assert complaints == said


def test_prices_are_listed_by_harm():
    """The class of a mistake is the worst one among the tests that it fails."""
    matrix = by_harm(worse=0.4, rare=0.2)
    matrix.rows.append(row("wrong", "both", ["test_rare", "test_crash"]))
    assert matrix_report.prices(matrix) == (
        "p · trains worse, 1.00 points\n  tests: test_worse 1.00\n  mistakes: worse 0.40\n"
        "p · wrong number, 1.00 points\n  tests: test_number 1.00\n"
        "p · crash, 1.00 points\n  tests: test_crash 1.00\n  mistakes: both\n"
        "p · rare, 1.00 points\n  tests: test_rare 1.00\n  mistakes: rare 0.20\n"
    )


def test_mistakes_that_prove_nothing_are_named():
    """Without them, each test is still failed, and alone if it was."""
    failed = {"first": "a", "second": "a", "both": "ab", "alone": "b", "not_tried": ""}
    rows = [row("wrong", name, [f"test_{t}" for t in tests]) for name, tests in failed.items()]
    matrix = Matrix(rows, {"p": hidden(test_a="", test_b="")})
    assert matrix.needless("p") == ["second", "both"]
    assert matrix_report.needless(matrix) == (
        "p: 2 known mistakes prove nothing that others do not; delete what students do not make: "
        "second, both\n"
    )


def test_a_light_run_asks_for_no_mistakes_and_no_reasons():
    """A problem's mutants must be noticed, most of them; everything else must be as ever."""
    rows = [row("mutant", f"m{n}", ["test_a"] * (n > 1)) for n in range(6)]
    wrong = row("wrong", "w", ["test_a"], share=0.9)
    matrix = Matrix([wrong, *rows], {"p": hidden(test_a="", test_b="")}, is_light=True)
    assert matrix.complaints() == []
    assert matrix_report.survivors(matrix) == "p: no test notices m0\np: no test notices m1\n"
    matrix.rows = [*rows[:5], row("junk", "0", [], "p · junk 0: passes")]
    assert matrix.complaints() == [
        "p · junk 0: passes",
        "p: no test notices 2 of 5 mutants, more than one in 3; write tests for them",
    ]


def test_tests_that_fail_the_reference_are_the_only_complaint_of_their_problem():
    """What follows from them is not told; the zip for Gradescope is a consequence, too."""
    rows = [
        row("junk", "0", [], "p · junk 0: it breaks"),
        row("junk", "0", [], "q · junk 0: passes", problem="q"),
        row("reference", "reference", ["t"], "p · reference: it breaks"),
    ]
    zipped = f"{OF_GRADESCOPE}0 of 2 points"
    matrix = Matrix(rows, wrong=[zipped, "another"])
    assert matrix.complaints() == ["p · reference: it breaks", "q · junk 0: passes", "another"]
    console = Console(width=100, file=io.StringIO())
    console.print(matrix_report.table(matrix))
    assert len(console.file.getvalue().splitlines()) == 3  # a head, the reference, and q's junk
    assert Matrix(rows[:2], wrong=[zipped]).complaints()[-1] == zipped


def test_checks_of_arguments_cost_little_in_all():
    """Such tests are worth at most 3 % of the course; a problem may decline that."""
    costs = {"share": 0.05, "points": 30.5}
    rows = [row("unchecked", "no checks", [], problem=problem, **costs) for problem in "pq"]
    complaint = "argument checks cost 3.05 points, more than 3"
    assert Matrix(rows, points=100).complaints() == [complaint]
    assert Matrix(rows[:1], points=100).complaints() == []
    declined = {"q": {"unchecked": "they are the problem"}}
    assert Matrix(rows, points=100, declined=declined).complaints() == []


def test_memory_that_nobody_wrote_fails_alike_with_every_seed():
    """Uninitialized memory fails the same tests with every seed; points never depend on chance."""
    rows = [row("unwritten", "torch.empty", [f"test_{n}"], seed=n) for n in range(2)]
    said = "p · torch.empty: it fails different tests with different seeds"
    assert Matrix(rows).complaints() == [said]
    assert Matrix(rows[:1]).complaints() == []


def test_seeds_with_the_same_outcome_share_a_row():
    rows = [row("variant", "v", [], seed=seed) for seed in range(20)]
    rows[3] = row("variant", "v", ["test_a"], "it loses a point", seed=3)
    console = Console(width=100, file=io.StringIO(), color_system=None)
    with console.capture() as shown:
        console.print(matrix_report.table(Matrix([row("reference", "reference", []), *rows])))
    assert [line.split() for line in shown.get().splitlines()[1:]] == [
        ["p", "✓", "reference", "1.00/2"],
        ["p", "✓", "variant", "v", "(19", "seeds)", "1.00/2"],
        ["p", "✗", "variant", "v", "1.00/2", "test_a"],
    ]


def test_a_course_need_not_list_mutants_and_a_wrong_list_is_named(tmp_path):
    """Without mutants.toml, no mutant is excused; the message names the file and the place."""
    path = tmp_path / "mutants.toml"
    assert mutants.listed(path) == {}
    for text in ("relu = 1", "relu ="):
        path.write_text(text)
        with pytest.raises(CourseFault, match=r"mutants\.toml: "):
            mutants.listed(path)
