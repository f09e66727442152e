"""Grades a made-up course: how each way for a test to end becomes a status, points and a message.

The course is graded in a separate process, because its modules have the same names as this
repository's. One process grades it several times; each test looks at one part of the results.
"""

import json
import os
import platform
import re
import shutil
from collections import Counter
from pathlib import Path

import pytest

from grader.course import courses
from grader.report import json_report
from grader.results.result_records import SubmissionResult
from tests.grader.compared_results import told, without_seconds
from tests.grader.processes import ran
from tests.grader.warm_python import python

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("check")]  # the results are of one process

ROOT = courses.PACKAGE.parent

LIMITS = """\
packages = []
[limits]
memory_bytes = 536_870_912
submission_seconds = 300.0
"""

PROBLEM = """
[[problem]]
id = "{id}"
module = "{module}"
functions = {functions}
points = {points}
section = "1.2"
device = "{device}"
forbidden = {forbidden}
"""

HEAD = """
import pytest
from kit import expect
from kit.student import call

def asks(path, *args, expected, harm=None):
    def test(student):
        module, function = path.split(".")
        expect.value(getattr(getattr(student, module), function)(*args), expected, of=function)
    return pytest.mark.harm(harm)(test) if harm else test
"""

# The submission: module name to source.
MODULES = {
    "good": """
        import os
        import random
        import time

        def double(x):
            return 2 * x

        def wrong(x):
            return 3 * x

        def nothing(x):
            pass

        def picky(x):
            raise ValueError("x must\\x1b be even")

        def todo(x):
            # a comment
            raise NotImplementedError("later")

        def leave(x):
            os._exit(3)

        def hang(x):
            while True:
                time.sleep(1)

        def hungry(x):
            return bytearray(2**40)

        def draw():
            return random.random()
        """,
    "delegates": """
        import math as m

        def total():
            return other()

        def other():
            return m.fsum([2, 3])
        """,
    "sneaks": """
        import math

        def total():
            return getattr(math, "fs" + "um")([2, 3])
        """,
    "broken": """
        x = 1
        def f(:
            pass
        """,
    "leaves": """
        import os
        os._exit(1)
        """,
    "stateful": """
        import os

        calls = 0

        def count():
            global calls
            calls += 1
            return calls

        def warm():
            return int(count() > 1)

        def last():
            return int(count() <= 2)

        def crash_later():
            if count() > 2:
                os.abort()
            return 1
        """,
    "two_faced": """
        import functools

        @functools.cache
        def kept():
            return []

        def f(x):
            kept().append(x)
            return 2 if len(kept()) == 1 else 1
        """,
    "unfinished": """
        import math

        class Layer:
            def forward(self):
                '''Not written yet.'''
                raise NotImplementedError("later")

        def todo():
            raise NotImplementedError

        def layer():
            return Layer().forward()

        def done():
            return 1

        def ends_in_a_stub_later():
            math.calls = getattr(math, "calls", 0) + 1
            return 1 if math.calls < 3 else todo()

        def is_a_stub_later():
            math.more_calls = getattr(math, "more_calls", 0) + 1
            if math.more_calls < 3:
                return 1
            raise NotImplementedError("used")
        """,
}

# Problem to (module, points, device, forbidden, hidden tests).
TESTS = {
    "passes": ("good", 3, "cpu", [], """
        @pytest.mark.own_process
        def test_it_doubles(student):
            "Twice the number."
            expect.value(student.good.double(2), 4, of="double")

        def test_a_probe_doubles(student):
            got = student.run(call, module="good", function="double", args=(3,), kwargs={})
            expect.value(got, 6, of="double")
        """),
    "differs": ("good", 4, "cpu", [], """
        def test_it_doubles(student):
            '''Twice the number.

            More that is for us.
            '''
            got = student.good.wrong(20)
            expect.value(got, 40, of="wrong", inputs="x 20", hint="how often is x added?")

        def test_it_does_not_raise(student):
            student.good.picky(1)

        test_it_returns = asks("good.nothing", 1, expected=2)

        def test_it_raises(student):
            with expect.raises(ValueError, of="picky", when="x is odd"):
                student.good.picky(1)
        """),
    "unwritten": ("good", 2, "cpu", [], """
        test_one = asks("good.todo", 1, expected=2)

        def test_two(student):
            with expect.raises(RuntimeError, of="todo", when="x is 1"):
                student.good.todo(1)
        """),
    "cases": ("good", 6, "cpu", [], """
        @pytest.mark.points(2)
        @pytest.mark.parametrize("x", [1, 2, 3])
        def test_all_pass(student, x):
            expect.value(student.good.double(x), 2 * x, of="double")

        @pytest.mark.parametrize("x", [1, 0, 2])
        def test_one_passes(student, x):
            expect.value(student.good.wrong(x), 2 * x, of="wrong", hint=f"hint {x}")
        """),
    "harms": ("good", 100, "cpu", [], """
        test_it_doubles = asks("good.double", 1, expected=2, harm="trains worse")
        test_it_is_wrong = asks("good.wrong", 1, expected=2, harm="rare")

        @pytest.mark.harm("crash")
        @pytest.mark.parametrize("x", [1, 2])
        def test_it_doubles_all(student, x):
            expect.value(student.good.double(x), 2 * x, of="double")
        """),
    "unknown_harm": ("good", 1, "cpu", [], """
        test_it_doubles = asks("good.double", 1, expected=2, harm="bad")
        """),
    "harm_and_points": ("good", 1, "cpu", [], """
        @pytest.mark.points(2)
        @pytest.mark.harm("rare")
        def test_it_doubles(student):
            expect.value(student.good.double(1), 2, of="double")
        """),
    "half_marked": ("good", 1, "cpu", [], """
        test_it_doubles = asks("good.double", 1, expected=2, harm="rare")
        test_it_doubles_two = asks("good.double", 2, expected=4)
        """),
    "ends": ("good", 5, "cpu", [], """
        def test_a_crash(student):
            student.good.leave(1)

        def test_b_time(student):
            student.good.hang(1)

        def test_c_memory(student):
            student.good.hungry(1)

        test_d_passes_still = asks("good.double", 1, expected=2)
        """),
    "draws": ("good", 1, "cpu", [], """
        def test_draws(student, rng):
            "The test's own numbers and the student's follow from the seed."
            ours = rng.random()
            facts = [("ours", str(ours)), ("theirs", str(student.good.draw()))]
            expect.that(False, "drew", of="draw", facts=facts)
        """),
    "our_assert": ("good", 2, "cpu", [], """
        def test_bare(student):
            assert student.good.double(1) == 3

        test_fine = asks("good.double", 1, expected=2)
        """),
    "our_error": ("good", 3, "cpu", [], """
        @pytest.fixture
        def table():
            return {}["key"]

        def test_error(student):
            student.good.double(1)
            1 / 0

        def test_fixture(student, table):
            pass

        def test_skipped():
            pytest.skip("not today")

        test_fine = asks("good.double", 1, expected=2)
        """),
    "delegated": ("delegates", 2, "cpu", ["math.fsum"], """
        test_one = asks("delegates.total", expected=1)
        """),
    "sneaked": ("sneaks", 2, "cpu", ["math.fsum"], """
        test_one = asks("sneaks.total", expected=1)
        """),
    "misspelt": ("broken", 2, "cpu", [], """
        test_one = asks("broken.f", 1, expected=1)
        test_two = asks("broken.f", 1, expected=1)
        """),
    "absent": ("absent", 2, "cpu", [], """
        test_one = asks("absent.f", 1, expected=1)
        """),
    "exits": ("leaves", 2, "cpu", [], """
        test_one = asks("leaves.f", 1, expected=1)
        """),
    "untested": ("good", 2, "cpu", [], ""),
    "both": ("good", 6, "cpu", [], """
        test_it_doubles = asks("good.double", 1, expected=2)
        test_another = pytest.mark.own_process(asks("good.double", 2, expected=4))
        """),
    "on_a_gpu": ("good", 7, "cuda", [], """
        test_logic = asks("good.double", 1, expected=2)
        """),
    "bad_logic": ("good", 5, "cuda", [], """
        test_logic = asks("good.wrong", 1, expected=2)
        """),
    "misspelt_there": ("broken", 2, "cuda", [], """
        test_logic = asks("broken.f", 1, expected=1)
        """),
    "no_tier": ("leaves", 2, "cuda", [], None),
    "not_there": ("good", 2, "cuda", [], """
        test_logic = asks("good.double", 1, expected=2)
        """),
    "counts": ("stateful", 3, "cpu", [], """
        @pytest.mark.parametrize("x", [1, 2])
        def test_first_call(student, x):
            expect.value(student.stateful.count(), 1, of="count")

        test_after_it = asks("stateful.count", expected=1)
        """),
    "warms_up": ("stateful", 3, "cpu", [], """
        @pytest.mark.parametrize("x", [1, 2])
        def test_one_call(student, x):
            expect.value(student.stateful.warm(), 1, of="warm")

        test_another_call = asks("stateful.warm", expected=1)

        def test_two_calls(student):
            expect.value([student.stateful.warm(), student.stateful.warm()], [0, 1], of="warm")
        """),
    "wears_out": ("stateful", 3, "cpu", [], """
        @pytest.mark.parametrize("x", range(5))
        def test_wrong_later(student, x):
            expect.value(student.stateful.last(), 1, of="last")

        @pytest.mark.parametrize("x", range(5))
        def test_crash_later(student, x):
            expect.value(student.stateful.crash_later(), 1, of="crash_later")

        def test_drawn_again(student, rng):
            student.stateful.last()
            x = rng.random()
            got = [student.good.double(x), student.stateful.last()]
            expect.value(got, [2 * x, 1], of="last")
        """),
    "two_answers": ("two_faced", 3, "cpu", [], """
        test_first = asks("two_faced.f", 0, expected=2)
        test_second = asks("two_faced.f", 0, expected=1)
        test_third = asks("two_faced.f", 0, expected=2)
        test_fourth = asks("two_faced.f", 0, expected=1)
        """),
    "stubs": ("unfinished", 3, "cpu", [], """
        @pytest.mark.parametrize("function", ["todo", "todo", "done", "layer"])
        def test_early(student, function):
            expect.value(getattr(student.unfinished, function)(), 1, of=function)

        @pytest.mark.parametrize("x", range(4))
        @pytest.mark.parametrize("function", ["ends_in_a_stub_later", "is_a_stub_later"])
        def test_later(student, function, x):
            expect.value(getattr(student.unfinished, function)(), 1, of=function)

        test_done = asks("unfinished.done", expected=1)
        """),
}  # fmt: skip
# Problem to its hidden tests for a CUDA device. They use no device, so they can run here.
CUDA = {
    "both": """
        @pytest.mark.parametrize("x", [1, 2])
        def test_it_doubles(student, x):
            expect.value(student.good.double(x), 2 * x, of="double")
        """,
    "on_a_gpu": """
        @pytest.mark.points(3)
        def test_it_doubles(student):
            expect.value(student.good.double(1), 2, of="double")

        test_it_is_wrong = asks("good.wrong", 1, expected=2)

        def test_what_we_got_wrong(student):
            assert student.good.double(1) == 3

        def test_it_crashes(student):
            student.good.leave(1)

        test_logic = asks("good.double", 1, expected=2)
        """,
    "bad_logic": """
        test_it_doubles = asks("good.double", 1, expected=2)
        """,
    "misspelt_there": """
        test_one = asks("broken.f", 1, expected=1)
        """,
    "no_tier": """
        def test_it_leaves(student):
            student.leaves.f(1)
        """,
}
UNREADABLE = {
    "syntax": "def test_one(student:\n    pass\n",
    "imports": "import no_such_module\n\ndef test_one(student):\n    pass\n",
    "cuda/there": "import no_such_module\n\ndef test_one(student):\n    pass\n",
    "leaves": "import pytest\n\ndef test_one(student):\n    pytest.exit('enough')\n",
}

DRIVER = """
import collections, gc, os, sys, weakref
from pathlib import Path
import msgspec
from grader.course import courses
from grader.submission import submissions
from grader.grading.grade import grade
from grader.grading.hidden_tests import HiddenTests
from grader.grading.pytest_plugin import Plugin
from grader.report import json_report
from grader.report.report_contents import Reported
from grader.sandbox.sandbox import Sandbox
from grader.sandbox.child_process import Child

root, work, out = map(Path, sys.argv[1:])
course = courses.load(root)
no_time = msgspec.structs.replace(course.limits, submission_seconds=0.0)
short = msgspec.structs.replace(course, limits=no_time)
handed_in = submissions.read(work)
ours = [p for p in course.problems if p.id not in ("syntax", "imports", "there", "leaves")]
some = [course.problem(p) for p in ("passes", "syntax", "imports", "there", "cases")]
def watched(kind, note):
    really_begin = kind.__init__
    def begin(made, *arguments, **options):
        note(*arguments)
        really_begin(made, *arguments, **options)
    kind.__init__ = begin
def forked(*_):
    # Such as "tests/hidden/cases/test_hidden.py::test_one_passes[1] (call)", and nothing before it.
    test = os.environ.get("PYTEST_CURRENT_TEST", "//no test/")
    forks[name_of_run][test.split("/")[2]] += 1
shown, forks, collected_by, outcomes_of_runs = [], {}, [], []
watched(Child, forked)
watched(HiddenTests, lambda *_: collected_by.append(name_of_run))
watched(Plugin, lambda job, outcomes, *_: outcomes_of_runs.append(weakref.ref(outcomes)))
with Sandbox.of(course, isolation="bubblewrap") as sandbox:
    def run(name, course=course, **options):
        global name_of_run
        name_of_run, forks[name] = name, collections.Counter()
        os.environ.pop("PYTEST_CURRENT_TEST", None)  # the test that runs this, or stopped pytest
        result = grade(handed_in, course, sandbox, **options)
        (out / f"{name}.json").write_text(json_report.render(Reported(result)))
    run("first", problems=ours, progress=lambda *seen: shown.append(list(seen)))
    run("fresh", problems=ours, fresh=True)
    run("three cases", problems=[course.problem("cases")], explain=False)
    run("three cases, fresh", problems=[course.problem("cases")], explain=False, fresh=True)
    run("until one fails", problems=[course.problem("cases")], until_one_fails=True)
    run("three cases, again", problems=[course.problem("cases")], explain=False)
    run("one module", problems=[course.problem("passes"), course.problem("both")])
    run("seed 1", problems=[course.problem("draws")], seed=1)
    run("unreadable", problems=some)
    run("short", short, problems=[course.problem("passes"), course.problem("absent")])
    run("cuda", problems=ours, device="cuda")
    run("waiting", problems=[course.problem("passes")], device="cuda")
    os.environ["PYTEST_ADDOPTS"] = "-k it_doubles"
    run("options", problems=[course.problem("passes"), course.problem("absent")])
    run("leaves", problems=[course.problem("passes"), course.problem("leaves")])
    run("leaves again", problems=[course.problem("passes"), course.problem("leaves")])
gc.collect()
left = len({id(outcomes()) for outcomes in outcomes_of_runs if outcomes()})
(out / "left.json").write_text(msgspec.json.encode([left, len(outcomes_of_runs)]).decode())
(out / "collected.json").write_text(msgspec.json.encode(collected_by).decode())
(out / "forks.json").write_text(msgspec.json.encode(forks).decode())
(out / "progress.json").write_text(msgspec.json.encode(shown).decode())
"""


def dedented(text: str) -> str:
    """Turn a block of one of the tables above into the text of a file."""
    return "\n".join(line[8:] for line in text.splitlines()) + "\n"


def write_hidden_tests(root: Path, problem: str, kind: str, source: str) -> None:
    path = root / "tests/hidden" / problem / f"test_{kind}.py"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(source)


def make_course(root: Path) -> None:
    (root / "tests").mkdir()
    shutil.copy(ROOT / "tests/__init__.py", root / "tests")
    (root / "tests/probes").mkdir()
    shutil.copy(ROOT / "tests/probes/__init__.py", root / "tests/probes")
    listed = LIMITS
    for name, (module, points, device, forbidden, tests) in TESTS.items():
        functions = json.dumps(["total"] if forbidden else ["f"])
        keys = {"id": name, "module": module, "points": points, "device": device}
        listed += PROBLEM.format(**keys, forbidden=json.dumps(forbidden), functions=functions)
        if name == "ends":
            listed += "limits = { wall_seconds = 1.0 }\n"
        if tests is not None:
            write_hidden_tests(root, name, "hidden", HEAD + dedented(tests))
    for name, tests in CUDA.items():
        write_hidden_tests(root, name, "cuda", HEAD + dedented(tests))
    for place, source in UNREADABLE.items():
        folder, _, name = place.rpartition("/")
        keys = {"id": name, "module": "good", "points": 2, "device": "cpu"}
        listed += PROBLEM.format(**keys, forbidden="[]", functions='["f"]')
        write_hidden_tests(root, name, folder or "hidden", source)
    there = HEAD + "\ndef test_one(student):\n    student.good.double(1)\n"
    write_hidden_tests(root, "there", "hidden", there)
    (root / "assignment").mkdir()
    (root / "assignment/problems.toml").write_text(listed)


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """The result of each run as JSON, by the run's name."""
    root, work, out = (tmp_path_factory.mktemp(name) for name in ("course", "ada", "out"))
    make_course(root)
    (work / "assignment").mkdir()
    for name, source in MODULES.items():
        (work / f"assignment/{name}.py").write_text(dedented(source))
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [python(), "-c", DRIVER, str(root), str(work), str(out)]
    done = ran(command, cwd=root, env=environment)
    assert (0, "") == (done.returncode, done.stderr), done.stderr
    return {path.stem: path.read_text() for path in out.glob("*.json")}


@pytest.fixture
def forks(results) -> dict[str, dict[str, int]]:
    """How many processes of tests each run has started, by problem.

    Every grade has one more process, which checks the machine and parses the modules.
    """
    counted = {run: Counter(found) for run, found in json.loads(results["forks"]).items()}
    assert {one.pop("no test") for one in counted.values()} == {1}
    return counted


@pytest.fixture
def first(results) -> SubmissionResult:
    return json_report.parse(results["first"])


def problem(result, problem_id):
    return next(p for p in result.problems if p.id == problem_id)


def ended(result, problem_id):
    """A problem's tests as (id, status, score, message, hint)."""
    tests = problem(result, problem_id).tests
    return [(t.id, t.status.value, t.score, told(problem_id, t), t.hint) for t in tests]


class Like(str):
    """A pattern that equals each text that it matches."""

    __hash__ = str.__hash__

    def __eq__(self, other):
        return re.fullmatch(self, other, re.DOTALL) is not None


def passed(test, score):
    """A passed test, in the form that `ended` returns; it has no message."""
    return (test, "passed", score, "", None)


def lost(test, status, message, hint=None):
    return (test, status, 0.0, message, hint)


def at(place):
    """The place of a fault in the student's code."""
    return f"\n  at        assignment/{place}"


def fault(test, message):
    return lost(test, "grader_error", message)


# --- how tests end --------------------------------------------------------------------------------

FORBIDDEN = "uses math.fsum, which this problem forbids"
TOO_MUCH = "it asked for more than 512 MiB, the limit of a test"
EXITED = "its process exited with code {} before it answered"
NOTHING = "returned None: is a `return` missing?"
KINDS_OF_HARM = "trains worse, wrong number, crash, not refused, rare"
# For each problem, its status and its tests.
ENDED = {
    # Tests may call the student's code directly or in a probe.
    "passes": ("passed", [passed("test_it_doubles", 1.5), passed("test_a_probe_doubles", 1.5)]),
    # The expected 40, the answer 60 and the input 20 stay private, and an exception's text has no
    # control characters. A missing return is a mismatch; an error that a test asked for is right.
    "differs": ("failed", [
        lost("test_it_doubles", "failed", "differs · wrong: wrong value", "how often is x added?"),
        lost("test_it_does_not_raise", "failed", "differs · picky: raised ValueError: x must\\x1b "
             f"be even{at('good.py:16 in picky')}"),
        lost("test_it_returns", "failed", f"differs · nothing: {NOTHING}"),
        passed("test_it_raises", 1.0),
    ]),
    # Even if the test expects a RuntimeError, as NotImplementedError is a subclass.
    "unwritten": ("not_attempted", [
        lost(name, "not_attempted", f"unwritten · todo: not attempted{at('good.py:20 in todo')}")
        for name in ("test_one", "test_two")
    ]),
    # All cases must pass, and the first failing case gives the message.
    "cases": ("failed", [
        passed("test_all_pass", 4.0),
        lost("test_one_passes", "failed", "cases · wrong: wrong value", "hint 1"),
    ]),
    # A test that ends the process fails alone.
    "ends": ("crashed", [
        lost("test_a_crash", "crashed", f"ends · leave: {EXITED.format(3)}"),
        lost("test_b_time", "timeout", Like("ends · hang: no answer within 1 s, the limit .*")),
        lost("test_c_memory", "memory", f"ends · hungry: {TOO_MUCH}{at('good.py:30 in hungry')}"),
        passed("test_d_passes_still", 1.25),
    ]),
    # The other modules are graded.
    "misspelt": ("failed", [
        lost(name, "failed", Like(r"misspelt: assignment/broken\.py:3: SyntaxError: .*"))
        for name in ("test_one", "test_two")
    ]),
    "absent": ("not_attempted", [
        lost("test_one", "not_attempted", "absent: assignment/absent.py is missing"),
    ]),
    "exits": ("crashed", [lost("test_one", "crashed", f"exits · f: {EXITED.format(1)}")]),
    # A forbidden call is found in a helper by reading, or at run time if the source hides it.
    "delegated": (
        "policy", [lost("test_one", "policy", f"delegated: {FORBIDDEN}{at('delegates.py:8')}")]
    ),
    "sneaked": ("policy", [
        lost("test_one", "policy", "sneaked · total: calls math.fsum"
             f"{at('sneaks.py:5 in total')}"),
    ]),
    # A bare assert would fail a student without an explanation. The other tests keep their points.
    "our_assert": ("grader_error", [
        fault("test_bare", Like(r"our_assert · test_bare: AssertionError: .* at .*py:13")),
        passed("test_fine", 1.0),
    ]),
    # Exceptions in the body or a fixture, and skips, which nobody would notice.
    "our_error": ("grader_error", [
        fault("test_error", "our_error · test_error: ZeroDivisionError: division by zero at "
              "test_hidden.py:18"),
        fault("test_fixture", "our_error · test_fixture: KeyError: 'key' at test_hidden.py:14"),
        fault("test_skipped", Like(".+")),
        passed("test_fine", 0.75),
    ]),
    # Without tests, a problem would give full marks for nothing, or no points for any solution.
    **{
        name: ("grader_error", [fault("suite", f"{name}: {said}")])
        for name, said in {
            "untested": "no hidden test was found for its device, cpu",
            "not_there": "no hidden test was found for its device, cuda",
            "unknown_harm": "test_it_doubles is marked harm('bad'): expected one of "
            f"{KINDS_OF_HARM}",
            "harm_and_points": "test_it_doubles is marked harm and points: expected one of them",
            "half_marked": "test_it_doubles_two has no mark harm(…), but other tests have one",
        }.items()
    },
}  # fmt: skip


@pytest.mark.parametrize("name", ENDED)
def test_how_the_tests_of_a_problem_end(first, name):
    """The problem has the worst status of its tests, and the sum of their points."""
    status, tests = ENDED[name]
    got = problem(first, name)
    assert tests == ended(first, name)
    assert (status, sum(test[2] for test in tests)) == (got.status, got.score)


def test_weights_share_the_points(first):
    """2 and 1 share 6 points as 4 and 2; a minor test is worth 2 % of its problem."""
    assert [4.0, 2.0] == [t.max_score for t in problem(first, "cases").tests]
    assert [78.4, 2.0, 19.6] == [t.max_score for t in problem(first, "harms").tests]
    assert problem(first, "harms").score == 98
    assert "Twice the number." == problem(first, "differs").tests[0].rule
    assert first.has_grader_error


# --- devices --------------------------------------------------------------------------------------


@pytest.fixture
def there(results) -> SubmissionResult:
    return json_report.parse(results["cuda"])


def waits(test, problem_id, what):
    """A deferred test, in the form that `ended` returns."""
    return (test, "deferred", 0.0, f"{problem_id}: {what}", None)


def test_the_folder_of_a_test_says_its_device(first, there):
    """Each run lists all tests, and the ids of CUDA tests begin with `cuda/`."""
    doubles, another, on_cuda = "test_it_doubles", "test_another", "cuda/test_it_doubles"
    needs_cuda = waits(on_cuda, "both", "needs a CUDA device")
    assert [passed(doubles, 3.0), passed(another, 3.0), needs_cuda] == ended(first, "both")
    on_cpu = [waits(doubles, "both", "runs on a CPU"), waits(another, "both", "runs on a CPU")]
    assert [*on_cpu, passed(on_cuda, 2.0)] == ended(there, "both")
    assert ["cpu", "cpu", "cuda"] == [t.device for t in problem(there, "both").tests]
    for result, total in ((first, (6.0, 0.0, "passed")), (there, (2.0, 4.0, "deferred"))):
        got = problem(result, "both")
        assert total == (got.score, got.pending, got.status)
    # Without a test for its own device, no run could earn a problem's points: our fault.
    assert ENDED["not_there"][1] == ended(there, "not_there")
    assert "cuda" == problem(there, "not_there").tests[0].device


def test_a_cuda_problem_waits_on_a_cpu(first):
    """Its CPU tests run on a CPU and are worth nothing, but a failure among them is reported."""
    got = problem(first, "on_a_gpu")
    assert ("cuda", 0.0, 7.0) == (got.device, got.score, got.max_score)
    assert (7.0, "deferred") == (got.pending, got.status)
    logic, doubles = ((t.id, t.status, t.max_score) for t in got.tests[:2])
    assert ("test_logic", "passed", 0.0) == logic
    assert ("cuda/test_it_doubles", "deferred", 3.0) == doubles
    bad = problem(first, "bad_logic")
    assert "bad_logic · wrong: wrong value" == told("bad_logic", bad.tests[0])
    assert ("failed", 5.0) == (bad.status, bad.pending)


def test_a_cuda_problem_is_graded_on_a_cuda_device(there):
    """Every way to end is reported as on a CPU; the CPU test is worth nothing."""
    assert [
        ("test_logic", "deferred", 0.0, 0.0),
        ("cuda/test_it_doubles", "passed", 3.0, 3.0),
        ("cuda/test_it_is_wrong", "failed", 0.0, 1.0),
        ("cuda/test_what_we_got_wrong", "grader_error", 0.0, 1.0),
        ("cuda/test_it_crashes", "crashed", 0.0, 1.0),
        ("cuda/test_logic", "passed", 1.0, 1.0),
    ] == [(t.id, t.status, t.score, t.max_score) for t in problem(there, "on_a_gpu").tests]
    assert "passed" == problem(there, "bad_logic").status


def test_what_waits_for_a_device_waits_whatever_is_wrong_with_its_module(first, there):
    """Only tests that could have run report a syntax error."""
    for result, statuses in ((first, ["failed", "deferred"]), (there, ["deferred", "failed"])):
        tests = problem(result, "misspelt_there").tests
        assert ["test_logic", "cuda/test_one"] == [test.id for test in tests]
        assert statuses == [test.status for test in tests]


def test_a_problem_without_a_test_for_this_device_waits_as_a_whole(results, first, there):
    """A problem may lack a file in either folder, and a run in which everything waits is valid."""
    waiting = waits("cuda/test_it_leaves", "no_tier", "needs a CUDA device")
    assert [waiting] == ended(first, "no_tier")
    statuses = [problem(there, name).status for name in ("no_tier", "passes")]
    assert ["crashed", "deferred"] == statuses
    got = json_report.parse(results["waiting"])
    tests = got.problems[0].tests
    assert [("deferred", 1.5), ("deferred", 1.5)] == [(t.status, t.max_score) for t in tests]
    assert (0.0, 0.0, 3.0) == (got.score, got.max_score, got.pending)


def test_the_totals_leave_out_what_is_pending(first, there):
    """The maximum of a run contains only the points that the run could give."""
    listed = sum(points for _, points, *_ in TESTS.values())
    for result in (first, there):
        pending = sum(p.pending for p in result.problems)
        score = sum(p.score for p in result.problems)
        found = (result.max_score, result.pending, result.score)
        assert (listed - pending, pending, score) == pytest.approx(found, abs=1e-12)


# --- our faults -----------------------------------------------------------------------------------


def test_a_test_file_that_cannot_be_read_is_our_fault_for_its_problem_alone(results):
    """A syntax error or a failing import, on either device; other problems are graded."""
    got = json_report.parse(results["unreadable"])
    statuses = {p.id: p.status.value for p in got.problems}
    ours = dict.fromkeys(("syntax", "imports", "there"), "grader_error")
    assert {"passes": "passed", **ours, "cases": "failed"} == statuses
    assert (3.0, 4.0) == (problem(got, "passes").score, problem(got, "cases").score)
    missing = "No module named 'no_such_module'"
    for name, text in {"syntax": "SyntaxError", "imports": missing, "there": missing}.items():
        ((test, _, _, message, _),) = ended(got, name)
        assert test == "suite"
        assert message.startswith(f"{name}: its hidden tests cannot be read: ")
        assert text in message


# --- the whole run --------------------------------------------------------------------------------


def test_a_submission_has_a_time_for_all_its_tests(results):
    """Statuses that need no run, such as a missing module's, are still reported."""
    got = json_report.parse(results["short"])
    for _, status, _, text, _ in ended(got, "passes"):
        assert "timeout" == status
        what = text.split("\n")[0].partition(": ")[2].replace(" of processor time", "")
        assert "the tests of its problem had used up their 0 s before this test began" == what
    assert problem(got, "absent").status == "not_attempted"


# --- tests that share a process -------------------------------------------------------------------


def test_a_process_for_each_test_gives_the_same(results):
    assert without_seconds(results["first"]) == without_seconds(results["fresh"])


def test_what_an_earlier_test_leaves_costs_nothing_and_helps_nobody(first):
    for name in ("counts", "wears_out"):
        assert [("passed", "")] == sorted({(s, text) for _, s, _, text, _ in ended(first, name)})
    assert ["failed", "failed", "passed"] == [s for _, s, *_ in ended(first, "warms_up")]


def test_two_answers_earn_no_more_than_one(forks, first):
    """A function that answers 2 in a new process and 1 in a used one passes only the tests of 2.

    The third test fails in a used process and passes in a new one. So the fourth has a process of
    its own, and then the two tests that have not failed run again, each in a process of its own.
    """
    got = [status for _, status, *_ in ended(first, "two_answers")]
    assert ["passed", "failed", "passed", "failed"] == got
    assert 4 + 2 == forks["first"]["two_answers"]


def test_only_a_test_that_does_not_pass_ends_its_process(forks):
    """A new process starts only after a test that does not pass.

    `cases` has three cases that pass, then a wrong one, a right one and a wrong one. One process
    serves the first four, of which the fourth fails, and a second process repeats the fourth. The
    last two share the third process, and the fourth process repeats the last.
    """
    assert {"cases": 4} == forks["three cases"]
    assert {"cases": 6} == forks["three cases, fresh"]


def test_a_marked_test_has_a_process_of_its_own(forks):
    """The first test of one problem is marked, and the last one of the other."""
    assert {"passes": 2, "both": 2} == forks["one module"]


def test_a_stub_ends_no_process(forks, first):
    """A test that calls a function that only raises NotImplementedError does so in any process.

    The first process serves three cases. A second one repeats the fourth, in which other code of
    the student's calls the stub: it might do so only in a used process. The code of the seventh
    case does: it fails in the third process and passes in the fourth. So the last six cases have a
    process each, and then the nine cases of the tests that have not failed run again.
    """
    assert 4 + 6 + 9 == forks["first"]["stubs"]
    got = ended(first, "stubs")
    assert ["not_attempted", "passed", "passed"] == [status for _, status, *_ in got]


def test_the_tests_of_the_last_grade_are_not_collected_again(results):
    """They are as good as new, even if the last grade stopped after its first failure."""
    by = ["first", "three cases", "one module", "seed 1", "unreadable", "short", "cuda"]
    by += ["waiting", "options", "leaves", "leaves again"]  # what was interrupted is not used again
    assert by == json.loads(results["collected"])
    (stopped,) = json_report.parse(results["until one fails"]).problems
    assert ["passed", "failed"] == [test.status for test in stopped.tests]
    assert without_seconds(results["three cases"]) == without_seconds(results["three cases, again"])


def test_nothing_of_a_submission_is_kept(results):
    """pytest never forgets a plugin, and leaves the last exception in `sys.last_value`."""
    left, runs = json.loads(results["left"])
    assert runs > 10
    assert left <= 2


def test_a_hidden_test_that_stops_pytest_is_our_fault(results):
    """No test of that grade counts, because nobody knows which of them ran."""
    got = json_report.parse(results["leaves"])
    for name in ("passes", "leaves"):
        ((test, status, _, message, _),) = ended(got, name)
        assert ("suite", "grader_error") == (test, status)
        assert message.endswith("pytest stopped before the tests were done: Exit: enough")
    assert without_seconds(results["leaves"]) == without_seconds(results["leaves again"])


def test_another_seed_gives_other_inputs(results, first):
    other = json_report.parse(results["seed 1"])
    ((_, _, _, one, _),), ((_, _, _, two, _),) = ended(first, "draws"), ended(other, "draws")
    assert (0, 1) == (first.grader.seed, other.grader.seed)
    differing = [a != b for a, b in zip(one.split("\n"), two.split("\n"), strict=True)]
    assert [False, True, True] == differing


def test_pytests_options_in_the_environment_change_nothing(results):
    """Otherwise, PYTEST_ADDOPTS in the environment of the grader could deselect tests."""
    got = json_report.parse(results["options"])
    assert ["test_it_doubles", "test_a_probe_doubles"] == [t.id for t in got.problems[0].tests]
    assert 3.0 == got.score


def test_a_result_says_what_was_graded_by_what_and_where(first, there):
    """It records the worker's versions; a run on a device adds facts about the device."""
    expected = [(name, module, float(points)) for name, (module, points, *_) in TESTS.items()]
    assert expected == [(p.id, p.module, p.max_score) for p in first.problems]
    assert sorted(f"assignment/{name}.py" for name in MODULES) == first.submission.files
    assert (64, 64) == (len(first.submission.sha256), len(first.grader.suite_sha256))
    versions = {"python": platform.python_version()}
    for result, device in ((first, "cpu"), (there, "cuda")):
        by = result.grader
        assert (0, device, "bubblewrap") == (by.seed, by.device, by.isolation)
        assert versions == by.environment


def test_progress_is_told_and_reaches_its_end(results):
    seen = json.loads(results["progress"])
    assert [done for _, done, _ in seen] == list(range(1, len(seen) + 1))
    assert seen[-1][1] == seen[-1][2]
