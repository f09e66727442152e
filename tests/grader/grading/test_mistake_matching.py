"""A report names a known mistake only if the submission returns exactly that mistake's numbers."""

import dataclasses
import io
import os
import random
import re
import shutil
import subprocess
import sys
import types

import numpy as np
import pytest
import torch
import torch.utils._python_dispatch

from grader.base.errors import Raised, StudentFault
from grader.grading import mistake_matching, recorded_cases
from grader.grading.grade import grade
from grader.grading.hidden_outcomes import TestFunction
from grader.grading.mistake_matching import Call, Case, Rehearsal, explained
from grader.grading.recorded_cases import Cases
from grader.grading.same_answers import same
from grader.results.result_records import Outcome
from grader.solutions import known_mistakes
from grader.submission import submissions
from tests.grader import test_attacks
from tests.grader.grading.test_nothing_is_left import Mode
from tests.grader.in_the_sandbox import COURSE, warm
from tests.grader.sampling import every

# The mistake no_bias_correction of adamw, written independently in a different style.
WITHOUT_CORRECTION = """
import torch

class AdamW(torch.optim.Optimizer):
    def __init__(self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.01):
        if lr < 0 or eps < 0 or weight_decay < 0 or not all(0 <= b < 1 for b in betas):
            raise ValueError(f"lr {lr}, betas {betas}, eps {eps}, weight_decay {weight_decay}")
        super().__init__(params, dict(lr=lr, betas=betas, eps=eps, weight_decay=weight_decay))

    def step(self, closure=None):
        loss = closure() if closure else None
        with torch.no_grad():
            for g in self.param_groups:
                for p in g["params"]:
                    if p.grad is None: continue
                    s = self.state[p]
                    s["a"] = torch.lerp(s.get("a", torch.zeros_like(p)), p.grad, 1 - g["betas"][0])
                    square = p.grad * p.grad
                    s["b"] = torch.lerp(s.get("b", torch.zeros_like(p)), square, 1 - g["betas"][1])
                    p -= g["lr"] * (g["weight_decay"] * p)
                    p.addcdiv_(s["a"], s["b"] ** 0.5 + g["eps"], value=-g["lr"])
        return loss
"""
# A mistake that is not in the list.
UNHEARD_OF = "return 1.0625 * (x @ self.weight.T)"

# Two mistakes, which together look like a third one where they alone are told apart.
TWO_IN_A_SCHEDULE = """
def lr_cosine_schedule(it, max_learning_rate, min_learning_rate, warmup_iters, cosine_cycle_iters):
    if it < warmup_iters:
        return max_learning_rate * (it + 1) / warmup_iters
    if it >= cosine_cycle_iters:
        return min_learning_rate
    weight = (1 + math.cos(math.pi * it / cosine_cycle_iters)) / 2
    return min_learning_rate + (max_learning_rate - min_learning_rate) * weight
"""
# Two mistakes that meet in a test of both functions, which none of them explains alone.
TWO_IN_MEMORY = """
def storage_bytes(x):
    return x.numel() * x.element_size()

def unique_bytes(tensors):
    return sum({id(x): x.untyped_storage().nbytes() for x in list(tensors)}.values())
"""


@pytest.fixture(scope="module")
def graded(sandbox, root, tmp_path_factory):
    """The failed tests of a submission with known mistakes and one unknown mistake."""
    folder = tmp_path_factory.mktemp("submission")
    (folder / "assignment").mkdir()
    schedule = f"import math\n{WITHOUT_CORRECTION}{TWO_IN_A_SCHEDULE}"
    (folder / "assignment/optimizers.py").write_text(schedule)
    for module, right, wrong in [
        ("linear", "return x @ self.weight.T", UNHEARD_OF),
        ("precision", "info.smallest_normal * info.eps", "info.tiny"),
        ("tensor_memory", "def shares_storage(", f"{TWO_IN_MEMORY}\ndef shares_storage("),
    ]:
        source = (root / f"grader/solutions/reference/{module}.py").read_text()
        assert right in source
        (folder / f"assignment/{module}.py").write_text(source.replace(right, wrong))
    problems = ("adamw", "linear", "lr_schedule", "precision", "tensor_memory")
    chosen = [COURSE.problem(name) for name in problems]
    result = grade(submissions.read(folder), COURSE, sandbox, problems=chosen)
    assert torch.__version__ == result.grader.environment["torch"]
    return {p.id: [t for t in p.tests if t.status == "failed"] for p in result.problems}


@warm
def test_a_known_mistake_is_named_by_its_numbers(graded):
    """The student's code differs from our version of the mistake."""
    known = known_mistakes.load(COURSE.hidden, "adamw")
    mistake = next(m for m in known if m.name == "no_bias_correction")
    assert len(graded["adamw"]) >= 2
    for test in graded["adamw"]:
        assert (test.mistake, test.hint) == (mistake.says, mistake.hint)


@warm
@pytest.mark.parametrize(
    ("problem", "names"),
    [
        ("lr_schedule", ["warmup_one_ahead", "progress_from_zero"]),  # each its own tests
        ("precision", ["spec_subnormal_is_the_normal"] * 2),  # and a function that calls it
    ],
)
def test_each_failure_has_the_name_of_its_cause(graded, problem, names):
    says = {m.name: m.says for m in known_mistakes.load(COURSE.hidden, problem)}
    assert [test.mistake for test in graded[problem]] == [says[name] for name in names]


@warm
def test_two_mistakes_that_meet_in_a_test_give_no_third_name(graded):
    says = {m.name: m.says for m in known_mistakes.load(COURSE.hidden, "tensor_memory")}
    names = says["elements_shown_for_storage"], says["unique_by_identity"]
    assert len(graded["tensor_memory"]) == 3
    for test in graded["tensor_memory"]:
        assert any(name in test.mistake for name in names), test.id


@warm
def test_a_mistake_that_nobody_knows_is_not_named(graded):
    assert graded["linear"]
    assert [test.id for test in graded["linear"] if test.mistake] == []


@pytest.mark.parametrize("problem", every(4, [problem.id for problem in COURSE.problems]))
def test_every_wrong_solution_can_be_rehearsed(problem):
    loaded = mistake_matching.wrong_solutions(COURSE, COURSE.problem(problem))
    on_a_cpu = [
        m for m in known_mistakes.load(COURSE.hidden, problem) if m.is_tried_on("cpu", ("cpu",))
    ]
    assert len(loaded) == len(on_a_cpu)


def test_mistakes_that_nobody_has_read_or_that_do_not_fit_are_not_executed(tmp_path):
    """A student wrote the first one; neither costs another explanation."""
    hostile = "[draft_1] No.\nunread: yes\n+ raise SystemExit\n+ def f():\n+     return 3\n"
    (tmp_path / "p").mkdir()
    (tmp_path / "p/wrong.edits").write_text(
        f"{hostile}\n[gone] No.\n- gone\n+ 2\n\n[1] Yes.\n- 1\n+ 2\n"
    )
    loaded = mistake_matching._loaded(tmp_path, "p", "m", "def f():\n    return 1\n")
    assert [(mistake.name, package.m.f()) for mistake, package in loaded] == [("1", 2)]
    (found,) = [m for m in known_mistakes.load(tmp_path, "p", unread=True) if m.is_unread]
    assert "draft_1" == found.name


def test_values_agree_within_rounding_alone():
    x = torch.linspace(-1, 1, 5)
    assert same({"a": [x, (1.0, "s", None)]}, {"a": [x + 1e-7, (1.0 + 1e-9, "s", None)]})
    assert same(torch.tensor([float("nan"), 1.0]), torch.tensor([float("nan"), 1.0]))
    assert same(np.arange(3), np.arange(3))
    for other in (x + 1e-3, x.double(), x[:4], x.tolist(), None, x.to("meta")):
        assert not same(x, other)
    third = torch.tensor(1 / 3)
    assert same(third.item(), (third * (1 + 1e-6)).item())  # a sum in another order, in float32
    for one, other in [
        *((1 / 3, (1 + 1e-6) / 3), (0.5, 0.5001), (1, 1.0), (True, 1)),
        *(([1, 2], (1, 2)), ({"a": 1}, {"b": 1}), (np.arange(3), np.arange(3).astype(np.int32))),
        (torch.tensor([1.0, float("nan")]), torch.tensor([1.0, 2.0])),
    ]:
        assert not same(one, other)


def probe(student, *, dtype):
    """Count the parameters of two layers of wrong solutions, which share one weight of 2 × 2."""
    one, other = (torch.nn.Linear(2, 2, bias=False) for _ in range(2))
    other.weight = one.weight
    return student.linear.count_parameters(torch.nn.Sequential(one, other))


def forks(student):
    """A probe that forks, which no rehearsal may do."""
    return os.fork()


class Wrong(AssertionError):
    """The exception that the test below raises."""


def ask(session, expected=4):
    """A test: the tied pair has 4 parameters, however often the test asks."""
    if session.run(probe, {"dtype": None}) != expected:
        raise Wrong("count_parameters: wrong value")


def failed(value, repeat=ask, test="t", calls=None, error=None):
    """The case of a test that failed because of this answer."""
    calls = [Call(probe, {"dtype": None}, value)] if calls is None else calls
    error = error or Wrong("count_parameters: wrong value")
    return Case(test, 0, repeat, calls, error, "count_parameters")


def named(*cases):
    """The names of the wrong solutions that explain these cases, by test."""
    found = explained(COURSE.problem("linear"), COURSE, list(cases))
    return {test: mistake.name for test, mistake in found.items()}


@pytest.fixture
def twice(monkeypatch):
    """Leave two mistakes of `linear`: a tied parameter counts twice; another function is wrong."""
    solutions = mistake_matching.wrong_solutions(COURSE, COURSE.problem("linear"))
    found = {mistake.name: (mistake, package) for mistake, package in solutions}
    pair = [found["count_ties_twice"], found["weight_transposed"]]
    monkeypatch.setattr(mistake_matching, "wrong_solutions", lambda *_: pair)
    return pair


def test_only_the_same_answer_is_the_same_mistake(twice):
    """Tied parameters counted twice give 8. A rehearsal makes no more calls than the test."""
    assert named(failed(8)) == {"t": "count_ties_twice"}
    assert named(failed(9)) == {}
    # None or an exception shows that something is missing, not what was done instead.
    assert named(failed(None)) == {}
    assert named(failed(None, calls=[Call(probe, {"dtype": None}, raised="TypeError")])) == {}
    assert named(failed(None, calls=[])) == {}

    def asks_twice(session):
        ask(session, expected=8)
        ask(session)

    assert named(failed(8, asks_twice)) == {}


def test_two_mistakes_that_explain_it_are_both_named(twice):
    """If no test tells two mistakes apart, the text has both; three say too little."""
    (first, package) = twice[0]
    for name in ("another", "third"):
        twice.append((dataclasses.replace(first, name=name, says=name, hint=name), package))
        found = explained(COURSE.problem("linear"), COURSE, [failed(8)])
        said = [f"{first.says} Or: another"] if name == "another" else []
        assert said == [mistake.says for mistake in found.values()]
        assert [f"{first.hint}; or: another"] * len(said) == [m.hint for m in found.values()]


def of_none(student, *, dtype):
    """Count the parameters of a module without any."""
    return student.linear.count_parameters(torch.nn.ReLU())


def ask_none(session):
    raise Wrong(f"{session.run(of_none, {'dtype': None})} parameters")


def test_of_two_mistakes_that_meet_in_a_test_either_may_be_the_one(twice):
    """Each explains one more test, and one of them is there by chance; three say too little."""
    first, _ = twice[0]
    linear = types.SimpleNamespace(count_parameters=lambda module: 7 + bool([*module.children()]))
    other = dataclasses.replace(first, name="another", says="another")
    twice.append((other, types.SimpleNamespace(linear=linear)))
    of_first, of_other = (
        failed(n, ask_none, name, [Call(of_none, {"dtype": None}, n)], Wrong(f"{n} parameters"))
        for name, n in (("u", 0), ("v", 7))
    )
    both = f"{first.says} Or: another"
    found = explained(COURSE.problem("linear"), COURSE, [failed(8), of_first, of_other])
    assert {test: mistake.says for test, mistake in found.items()} == dict.fromkeys("tuv", both)
    assert named(failed(8), of_first) == dict.fromkeys("tu", first.name)
    twice.append((dataclasses.replace(first, name="third"), twice[0][1]))
    assert named(failed(8), of_first, of_other) == {}


def test_a_mistake_is_named_for_the_tests_that_it_explains(twice):
    """Another mistake is in the code, too: it fails another test, which stays without a name."""
    something_else = failed(5, test="u", error=Wrong("other words"))
    assert named(something_else) == {}
    in_the_same_test = dataclasses.replace(something_else, test="t")
    assert named(failed(8), in_the_same_test) == {}
    for function in ("count_parameters", "Linear", ""):
        other = dataclasses.replace(something_else, function=function)
        assert named(failed(8), other) == {"t": "count_ties_twice"}


def both(student, *, dtype):
    """Count tied parameters, and the output of a layer that is not square."""
    linear = student.linear.Linear(2, 3)
    return [probe(student, dtype=dtype), list(linear.weight.shape)]


def ask_both(session):
    if session.run(both, {"dtype": None}) != [4, [3, 2]]:
        raise Wrong("count_parameters: wrong value")


def test_two_mistakes_that_fail_a_test_together_are_both_named(twice):
    """Whether or not one of them explains another test alone; another answer is not theirs."""
    together, unlike = (
        failed(None, ask_both, test="both", calls=[Call(both, {"dtype": None}, [count, [2, 3]])])
        for count in (8, 9)
    )
    found = explained(COURSE.problem("linear"), COURSE, [failed(8), together])
    first, second = (mistake for mistake, _ in twice)
    assert found["t"].says == first.says
    assert found["both"].says == f"{first.says} And: {second.says}"
    assert explained(COURSE.problem("linear"), COURSE, [together])["both"] == found["both"]
    assert named(unlike) == {}


def test_a_mistake_that_fails_what_passed_is_not_named(twice):
    """A student who passes a test that the mistake fails does not make this mistake."""
    passed = Case("u", 0, ask, [Call(probe, {"dtype": None}, 4)])
    assert named(failed(8), passed) == {}
    calls = [Call(probe, {"dtype": None}, 8)]
    harmless = Case("u", 0, lambda session: ask(session, expected=8), calls)
    assert named(failed(8), harmless) == {"t": "count_ties_twice"}


def refuses(student):
    """Multiply by a weight, which fails if it is transposed."""
    return student.linear.Linear(2, 3).weight @ torch.ones(2)


def test_an_exception_tells_by_its_text(twice):
    """That of a library says which call of it was wrong; the type alone says too little."""

    def ask_it(session):
        session.run(refuses, {})

    with pytest.raises(StudentFault) as found:
        ask_it(Rehearsal(twice[1][1], None, 0))
    (text,) = found.value.args
    for said, names in ((text, {"t": "weight_transposed"}), ("other words", {}), ("", {})):
        error = Raised(["RuntimeError", "Exception"], "RuntimeError", said, None)
        calls = [Call(refuses, {}, raised="RuntimeError")]
        assert named(failed(None, ask_it, calls=calls, error=error)) == names


def test_an_exception_beside_a_telling_answer_has_to_be_the_same(twice):
    """It points to a second mistake, which has no name."""
    error = Raised(["TypeError", "Exception"], "TypeError", "x", None)
    calls = [Call(probe, {"dtype": None}, raised="TypeError")]
    case = failed(None, test="u", calls=calls, error=error)
    assert named(failed(8), case) == {"t": "count_ties_twice"}


def modes():
    """The number of torch dispatch modes that this thread is in."""
    return len(torch.utils._python_dispatch._get_current_dispatch_mode_stack())


def test_a_rehearsal_leaves_this_process_as_it_was(twice, capfd):
    """A known mistake may print, too; the grader's stdout may be a report in JSON."""
    reached = []

    def repeat(session):
        torch.manual_seed(1)
        random.seed(1)
        np.random.seed(1)
        torch.set_default_dtype(torch.float64)
        Mode().__enter__()
        open("left.txt", "w").close()
        print("could not save")
        print("could not save", file=sys.stderr)
        session.run(forks, {})
        reached.append(True)

    numpys = np.random.get_state()[1].copy()
    surroundings = (random.getstate(), os.getcwd(), os.fork, os.listdir(), modes())
    torchs = torch.get_rng_state()
    assert named(failed(None, repeat, calls=[Call(forks, {}, 1)])) == {}
    assert reached == []
    assert torch.equal(torchs, torch.get_rng_state())
    assert np.array_equal(numpys, np.random.get_state()[1])
    assert surroundings == (random.getstate(), os.getcwd(), os.fork, os.listdir(), modes())
    assert torch.get_default_dtype() == torch.float32
    assert tuple(capfd.readouterr()) == ("", "")


def may_fork(student, *, how):
    """A probe that forks only if it is asked to."""
    return os.fork() if how == "killed" else len(how)


def test_a_probe_that_forked_once_is_still_rehearsed_where_it_does_not(twice):
    """What one test has shown about a probe names or hides no mistake in a later submission."""

    def calls(how):
        return [Call(may_fork, {"how": how}, len(how))]

    def repeats(how):
        return lambda session: session.run(may_fork, {"how": how})

    fails, kills = (
        Case(how, 0, repeats(how), calls(how), Wrong(), "count_parameters")
        for how in ("failed", "killed")
    )
    assert (fails.tells, kills.tells) == (True, True)
    named(kills)
    assert (fails.tells, kills.tells) == (True, False)


# --- the answers that tests get are kept until the end of their problem, up to a limit ------------


MIB = 2**20


@pytest.fixture
def kept(monkeypatch):
    """The number of calls of each case that is explained."""
    found = []

    def explained(problem, course, cases):
        found.append([len(case.calls) for case in cases])
        return {}

    monkeypatch.setattr(recorded_cases, "explained", explained)
    return found


def test_large_answers_are_not_kept(kept):
    """A test whose answers do not fit keeps no calls; the next problem has all the room again.

    A test on a GPU is not kept at all: this process must use no device.
    """
    problem, cases = COURSE.problem("linear"), Cases(COURSE)
    fixtures = types.SimpleNamespace(argnames=())
    item = types.SimpleNamespace(_fixtureinfo=fixtures, funcargs={}, function=lambda: None)
    for device in ("cpu", "cpu", "cuda"):
        for mib in (40, 30, 24, 1):
            calls = [Call(kept, {}, 8)]
            student = types.SimpleNamespace(seed=0, calls=calls, answered_bytes=mib * MIB)
            function = TestFunction(problem, "test_one", device, 1)
            cases.keep(item, function, student, None, Outcome(status="passed"), None)
        cases.explained(problem)
    assert kept == [[1, 0, 1, 0], [1, 0, 1, 0], []]


def test_an_explanation_that_breaks_is_reported(monkeypatch, capsys):
    """The warning says what broke and where, in one line; the grade goes on without it."""

    def broken(problem, course, cases):
        raise KeyError("no\nsuch \x1b[31mname")

    monkeypatch.setattr(recorded_cases, "explained", broken)
    assert {} == Cases(COURSE).explained(COURSE.problem("linear"))
    (line,) = capsys.readouterr().err.splitlines()
    said = r"grader: a fault of the grader: linear was not compared with its known mistakes: "
    said += r"KeyError: 'no\\nsuch \\x1b\[31mname' at test_mistake_matching.py:\d+; the points are "
    assert re.fullmatch(f"{said}right", line)
    with io.TextIOWrapper(open("/dev/full", "wb", buffering=0), write_through=True) as full:
        monkeypatch.setattr("sys.stderr", full)
        assert {} == Cases(COURSE).explained(COURSE.problem("linear"))


@pytest.mark.proof
def test_answers_are_gone_after_their_test(root, tmp_path):
    """A failed test leaves circles of objects that hold its answers, 300 MiB each."""
    (tmp_path / "assignment").mkdir()
    for path in COURSE.reference.glob("[!_]*.py"):
        shutil.copy(path, tmp_path / "assignment")
    (attack,) = (a for a in test_attacks.ALL if a.name == "unused_bytes_in_every_answer")
    with (tmp_path / "assignment" / "einops_reshaping.py").open("a") as module:
        module.write(f"\n\n{attack.made}")
    command = [sys.executable, "-m", "grader", "grade", tmp_path, "--only", "einops"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=root)
    with process.stdout as pipe:
        report = pipe.read()
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert re.search(r" 0/\d+  crashed", report)
    assert used.ru_maxrss * 1024 < 1500 * MIB
