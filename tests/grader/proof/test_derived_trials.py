"""The automatic trials of the hidden tests: each rewriting rule does what its kind promises."""

import ast
import math
from collections.abc import Mapping
from fractions import Fraction

import numpy as np
import pytest
import torch

from grader.base.errors import Status
from grader.course import courses
from grader.proof import derived_trials, rewrites, rewrites_tensors
from grader.proof.trial_kinds import DECLINABLE, KINDS, Judged
from grader.results.points import problem_result
from grader.results.result_records import Outcome
from tests.grader.sampling import every

COURSE = courses.load()
REFERENCES = courses.load().reference

SOURCE = """
from __future__ import annotations
import math
import torch

def area(width: float, height: float) -> float:
    if width < 0:
        raise ValueError(f"width must not be negative, got {width}")
    elif width > 100:
        raise ValueError("width is in metres")
    else:
        width = width * 1.0
    for side in (width, height):
        if math.isinf(side):
            raise OverflowError("a side is infinite")
    return width * height / 2

def halves(x: torch.Tensor) -> dict[str, torch.Tensor]:
    return {"first": x[: len(x) // 2], "second": x[len(x) // 2 :]}

class Gain(torch.nn.Module):
    def __init__(self, size, *, start=1.0):
        super().__init__()
        self.gain = torch.nn.Parameter(torch.full((size,), start))

    def forward(self, x):
        return (x * self.gain).sum(-1)

class Descent(torch.optim.Optimizer):
    def __init__(self, params, lr=0.5):
        super().__init__(params, {"lr": lr})

    def step(self, closure=None):
        for group in self.param_groups:
            for p in group["params"]:
                p.data.sub_(group["lr"] * p.grad)
"""


def module(source=SOURCE):
    namespace = {"__name__": "made_here"}
    exec(compile(source, "made_here", "exec"), namespace)
    return namespace


def rewritten(transformer):
    """The namespace of the module after a rule has rewritten it."""
    return module(derived_trials._rewritten(SOURCE, transformer).decode())


JUNK = rewrites.JUNK | rewrites.OF_NUMPY | rewrites_tensors.JUNK


@pytest.mark.parametrize("which", JUNK)
def test_junk_answers_with_one_thing(which):
    namespace = module()
    rewrites.junk(namespace, ["area", "Gain", "Descent"], JUNK[which])
    argument = torch.ones(2)
    answers = [namespace["area"](argument), namespace["Gain"](3).forward(argument)]
    assert type(answers[0]) is type(answers[1])
    if which == "the first argument":
        assert answers[0] is argument
    optimizer = namespace["Descent"]([torch.nn.Parameter(argument)], lr=2.0)
    optimizer.step()
    assert [2.0] == [group["lr"] for group in optimizer.param_groups]
    assert torch.equal(torch.ones(2), optimizer.param_groups[0]["params"][0])
    rewrites.junk(namespace, ["Gain"], JUNK[which], hollow=False)
    assert not isinstance(namespace["Gain"](3), torch.nn.Module) or which == "a layer"


def test_junk_is_of_every_kind():
    made = [make((), {}) for make in JUNK.values()]
    kinds = {type(None), int, float, bool, complex, str, bytes, list, tuple, dict, set}
    assert kinds | {torch.dtype, np.ndarray, torch.Tensor} <= set(map(type, made))
    tensors = [value for value in made if isinstance(value, torch.Tensor)]
    assert {t.layout for t in tensors} == {torch.strided, torch.sparse_coo}
    assert {t.device.type for t in tensors} == {"cpu", "meta"}
    assert any(t.requires_grad for t in tensors)
    assert any(t.numel() == 0 for t in tensors)


def test_other_words_are_other_words():
    """Only an error's message changes; its type and its condition stay the same."""
    with pytest.raises(ValueError, match=r"^that cannot be done with this$"):
        rewritten(derived_trials._OtherWords())["area"](-1, 2)


def test_without_checks_nothing_is_refused():
    """An `if` that raises another kind of error is no check, and an `else` is the formula's."""
    area = rewritten(derived_trials._NoChecks())["area"]
    assert (-1.0, 101.0) == (area(-1, 2), area(101, 2))
    with pytest.raises(OverflowError):
        area(1, math.inf)


def test_other_types_hold_the_same_values():
    """Values inside containers change their types too, but only for callers outside the module."""
    for which, kind in [("numpy's floats", np.float64), ("numpy's ints", np.int64)]:
        source = "def f(): return (1.5, [2], {'a': True})\ndef g(): return str(type(f()[0]))\n"
        namespace = module(source)
        rewrites.map_answers(namespace, ["f", "g"], rewrites.TYPES[which])
        one, (two,), rest = namespace["f"]()
        assert (1.5, 2, {"a": True}) == (one, two, rest)
        assert kind in (type(one), type(two))
        assert type(rest["a"]) is bool
        assert str(float) == namespace["g"]()
    namespace = module()
    rewrites.map_answers(namespace, ["halves"], rewrites.TYPES["mappings"])
    got = namespace["halves"](torch.arange(4))
    assert isinstance(got, Mapping)
    assert not isinstance(got, dict)
    assert [2, 3] == got["second"].tolist()


@pytest.mark.parametrize("how", ["logarithms", "fractions"])
def test_other_arithmetic_gives_the_same_number(how):
    source = derived_trials._rewritten(SOURCE, derived_trials._Arithmetic({"area"}, how)).decode()
    assert f"rewrites.by_{how}(rewrites.by_{how}(width, height, 1), 2, -1)" in source
    area = module(source.replace("from assignment import", "from grader.proof import"))["area"]
    assert math.isclose(3.3, area(2.2, 3.0), rel_tol=1e-13)
    assert type(area(2.2, 3.0)) is {"logarithms": float, "fractions": Fraction}[how]


def test_sums_backwards_are_the_same_sums():
    namespace = module()
    rewrites_tensors.sums_backwards(namespace, ["halves", "Gain"])
    x = torch.rand(3, 5, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    layer = namespace["Gain"](5).double()
    assert torch.allclose(x.sum(-1), layer.forward(x), rtol=1e-14)
    a, b = x, x.T.contiguous()
    with rewrites_tensors._Backwards():
        got = [a @ b, torch.bmm(a[None], b[None])[0], torch.addmm(a @ b, a, b) / 2]
        got.append(torch.stack([a @ row for row in a], 1))
        total = x.sum()
    assert all(torch.allclose(a @ b, other, rtol=1e-13) for other in got)
    assert torch.allclose(x.sum(), total, rtol=1e-13)


def test_unwritten_memory_is_in_answers_and_parameters(monkeypatch):
    monkeypatch.setattr(torch, "empty_like", lambda x: torch.full_like(x, 7))
    namespace = module()
    rewrites_tensors.unwritten(rewrites, namespace, ["halves", "Gain"])
    assert [7, 7] == namespace["halves"](torch.arange(4))["first"].tolist()
    assert [7, 7, 7] == namespace["Gain"](3).gain.tolist()


@pytest.mark.parametrize("problem", every(4, COURSE.problems), ids=lambda problem: problem.id)
def test_every_problem_has_every_kind_that_fits_it(problem):
    reference = (REFERENCES / f"{problem.module}.py").read_text(encoding="utf-8")
    found = list(derived_trials.derived(problem, reference))
    assert {"junk", "words", "unchecked", "types"} <= {kind for kind, _, _ in found}
    assert len(found) == len({(kind, name) for kind, name, _ in found})
    for _, _, files in found:
        defined = {getattr(node, "name", "") for node in ast.parse(files[problem.path]).body}
        assert set(problem.functions) <= defined


# --- the kinds of trials: what is a complaint about each, and what is none ------------------------


PASSED, FAILED, MISSING = Status.PASSED, Status.FAILED, Status.NOT_ATTEMPTED
ASK = "ask for other answers too, or first for a right call (expect.right_call)"


def judged(*statuses, **more):
    """A trial whose tests t0, t1, … ended so; the first one weighs nine times as much."""
    tests = [
        Outcome(id=f"t{i}", weight=1 if i else 9, status=status, what="why")
        for i, status in enumerate(statuses)
    ]
    return Judged(problem_result("p", "m", 10, tests), **more)


# A kind, how its tests ended, and what the complaint about that is.
ENDS = [
    ("reference", judged(PASSED, PASSED), ""),
    ("variant", judged(FAILED, FAILED), "2 tests fail, the first is t0: why"),
    ("words", judged(PASSED, FAILED), "t1 fails: why"),
    ("stub", judged(MISSING, MISSING), ""),
    ("stub", judged(MISSING, FAILED), "t1 is failed; a stub earns 0 as not_attempted: mark the"),
    ("wrong", judged(PASSED, FAILED), ""),
    ("wrong", judged(FAILED, Status.MEMORY), ""),
    ("wrong", judged(PASSED), "it passes every test; a wrong solution has to be caught"),
    ("wrong", judged(FAILED, Status.TIMEOUT), "its status is timeout: why"),
    ("wrong", judged(PASSED, FAILED, most=8), "it earns 9.00 points, and may earn at most 8"),
    ("junk", judged(FAILED, FAILED), ""),
    ("junk", judged(PASSED, FAILED), f"t0 passes with this answer; {ASK}"),
    ("junk", judged(PASSED, PASSED), f"t0, t1 pass with this answer; {ASK}"),
    ("unchecked", judged(PASSED, FAILED), ""),
    ("unchecked", judged(FAILED, PASSED), "it loses 90.0 %, more than 10: t0"),
    ("unwritten", judged(PASSED, FAILED), ""),
    ("hostile", judged(PASSED, FAILED), ""),
    ("field", judged(PASSED, FAILED), ""),
    ("field", judged(PASSED, is_never_sent=True), ""),
    ("field", judged(PASSED), "no test looks at this field"),
    ("field", judged(PASSED, FAILED, blind=("t0",)), "t0 passes without these answers"),
    ("mutant", judged(PASSED, FAILED), ""),
    ("mutant", judged(PASSED, excused="it is equal"), ""),
    ("mutant", judged(PASSED), "no test notices it"),
    ("mutant", judged(FAILED, excused="it is equal"), "it is listed as equivalent, but t0 notices"),
]


@pytest.mark.parametrize(("kind", "ended", "complaint"), ENDS)
def test_what_differs_from_what_is_required_is_told(kind, ended, complaint):
    got = KINDS[kind].complaint(ended)
    assert got.startswith(complaint)
    assert bool(got) is bool(complaint)


def test_every_kind_is_tried_here_but_those_that_lose_nothing():
    """Kinds that lose nothing share one rule."""
    rules = {KINDS[kind].complaint for kind, *_ in ENDS}
    assert rules == {kind.complaint for kind in KINDS.values()}
    assert "wrong" not in DECLINABLE
    assert "mutant" not in DECLINABLE
