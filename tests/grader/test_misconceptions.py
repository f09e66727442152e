"""Known mistakes are named where a submission gives their very numbers, and nowhere else."""

import dataclasses

import numpy as np
import pytest
import torch

from grader import course as courses
from grader import fragments, misconceptions
from grader.misconceptions import HERE, Call, Rehearsal, named, same
from grader.report import json as json_report

COURSE = courses.load()

# The mistake of grader/wrong/adamw/no_bias_correction.py, written by someone else in other words.
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
                    s["b"] = torch.lerp(s.get("b", torch.zeros_like(p)), p.grad * p.grad, 1 - g["betas"][1])
                    p -= g["lr"] * (g["weight_decay"] * p)
                    p.addcdiv_(s["a"], s["b"] ** 0.5 + g["eps"], value=-g["lr"])
        return loss
"""
# A mistake that nobody has listed.
UNHEARD_OF = "return 1.0625 * (x @ self.weight.T)"


@pytest.fixture(scope="module")
def graded(grader, root, tmp_path_factory):
    """The result of a submission with one known mistake and one that nobody has heard of."""
    folder = tmp_path_factory.mktemp("submission")
    (folder / "assignment").mkdir()
    (folder / "assignment/optimizers.py").write_text(WITHOUT_CORRECTION)
    linear = (root / "grader/reference/linear.py").read_text()
    (folder / "assignment/linear.py").write_text(linear.replace("return x @ self.weight.T", UNHEARD_OF))
    out = folder / "result.json"
    done = grader("grade", folder, "--only", "adamw", "--only", "linear", "--json", out)
    assert done.returncode == 0, done.stderr
    return {problem.id: problem for problem in json_report.parse(out.read_text()).problems}


@pytest.mark.slow
def test_a_known_mistake_is_named_by_its_numbers(graded):
    """With its hint, in every test that it fails, although the code shares no line with ours."""
    fragment = next(f for f in fragments.load(HERE / "wrong", "adamw") if f.name == "no_bias_correction")
    failed = [test for test in graded["adamw"].tests if test.status == "failed"]
    assert len(failed) >= 2
    for test in failed:
        assert f"\n  mistake   {fragment.summary} That gives these answers." in test.message
        assert test.hint == fragment.hint


@pytest.mark.slow
def test_a_mistake_that_nobody_knows_is_not_named(graded):
    """The test's own words are all that there is."""
    failed = [test for test in graded["linear"].tests if test.status == "failed"]
    assert failed
    assert [test.id for test in failed if "mistake" in test.message] == []


@pytest.mark.parametrize("problem", [problem.id for problem in COURSE.problems])
def test_every_wrong_solution_can_be_rehearsed(problem):
    """It is a module that loads: a report that finds a mistake must not fail over it."""
    loaded = misconceptions._wrong_solutions(problem, COURSE.problem(problem).module)
    assert len(loaded) == len(fragments.load(HERE / "wrong", problem))


def test_values_agree_within_rounding_alone():
    """Another order of the same operations agrees; another formula does not, nor another dtype or shape."""
    x = torch.linspace(-1, 1, 5)
    assert same({"a": [x, (1.0, "s", None)]}, {"a": [x + 1e-7, (1.0 + 1e-9, "s", None)]})
    assert same(torch.tensor([float("nan"), 1.0]), torch.tensor([float("nan"), 1.0]))
    assert same(np.arange(3), np.arange(3))
    for other in (x + 1e-3, x.double(), x[:4], x.tolist(), None, x.to("meta")):
        assert not same(x, other)
    assert not same(1, 1.0)
    assert not same(True, 1)
    assert not same([1, 2], (1, 2))
    assert not same({"a": 1}, {"b": 1})
    assert not same(np.arange(3), np.arange(3).astype(np.int32))
    assert not same(torch.tensor([1.0, float("nan")]), torch.tensor([1.0, 2.0]))


def probe(student, *, x):
    """Ask the module of this name; used below with packages made here."""
    return student.linear.count_parameters(x)


class Wrong(AssertionError):
    """What the test below raises."""


def rehearse(value, *, ask=1):
    """Which wrong solutions of `linear` are named when count_parameters of a tied pair gave `value`."""
    module = torch.nn.Sequential(torch.nn.Linear(2, 2, bias=False), torch.nn.Linear(2, 2, bias=False))
    module[1].weight = module[0].weight
    calls = [Call(probe, {"x": module}, value)]

    def repeat(rehearsal: Rehearsal) -> None:
        for _ in range(ask):
            got = rehearsal.run(probe, {"x": module})
        if got != 4:
            raise Wrong("count_parameters: wrong value")

    return [f.name for f in named("linear", "linear", calls, 0, repeat, Wrong("count_parameters: wrong value"))]


def rehearsable(monkeypatch):
    """Inputs above are modules, which no test of ours sends: take them as they are, and compare them by identity."""
    monkeypatch.setattr(misconceptions, "same", lambda a, b: a == b if isinstance(a, int) else True)


def test_only_the_same_answer_is_the_same_mistake(monkeypatch):
    """8 is what counting a tied parameter twice gives; 9 is what nothing gives; a rehearsal asks no more than the test did."""
    rehearsable(monkeypatch)
    assert rehearse(9) == []
    assert rehearse(8) != []
    assert rehearse(8, ask=2) == []


def test_a_mistake_that_needs_a_device_is_not_rehearsed(monkeypatch):
    """Only tests on a CUDA device can notice it, and this process touches none."""
    rehearsable(monkeypatch)
    found = [(dataclasses.replace(f, devices=("cuda",)), p) for f, p in misconceptions._wrong_solutions("linear", "linear")]
    monkeypatch.setattr(misconceptions, "_wrong_solutions", lambda *_: found)
    assert rehearse(8) == []


def test_an_answer_of_nothing_names_no_mistake(monkeypatch):
    """None, or an exception, says what is missing and not what was done instead."""
    rehearsable(monkeypatch)
    assert rehearse(None) == []
    call = Call(probe, {"x": 1}, raised="TypeError")
    assert named("linear", "linear", [call], 0, lambda r: None, Wrong()) == []
    assert named("linear", "linear", [], 0, lambda r: None, Wrong()) == []


def test_a_rehearsal_leaves_this_process_as_it_was(monkeypatch):
    """Its generators, its working folder, its settings; and nothing in it can fork."""
    import os
    import random

    def repeat(rehearsal: Rehearsal) -> None:
        torch.manual_seed(1)
        random.seed(1)
        np.random.seed(1)
        torch.set_default_dtype(torch.float64)
        open("left.txt", "w").close()
        os.fork()

    before = torch.get_rng_state(), random.getstate(), np.random.get_state()[1].copy(), os.getcwd(), os.fork, os.listdir()
    assert named("linear", "linear", [Call(probe, {}, 1)], 0, repeat, Wrong()) == []
    assert torch.equal(before[0], torch.get_rng_state())
    assert before[1] == random.getstate()
    assert np.array_equal(before[2], np.random.get_state()[1])
    assert before[3:] == (os.getcwd(), os.fork, os.listdir())
    assert torch.get_default_dtype() == torch.float32
