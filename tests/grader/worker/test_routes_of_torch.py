"""What torch calls by itself is never taken for a call of the student's."""

import re
from pathlib import Path

import pytest
import torch

from grader.base.errors import PolicyBroken
from tests.grader.in_the_sandbox import COURSE, answer, fault, warm

SOURCE = (Path(__file__).parent / "routes_of_torch.py").read_text()
ROUTES = re.findall(r"^def (through_\w+)", SOURCE, re.MULTILINE)
# Without those that take a second.
SLOW = {"through_export", "through_torchscript", "through_other_backends"}
QUICK = [name for name in ROUTES if name not in SLOW]
FORBIDDEN = [name for problem in COURSE.problems for name in problem.forbidden]
ALLOWED = {"memory_bytes": 2**31, "file_bytes": 2**26, "processes": COURSE.limits.processes}

FORMULA_OF_VMAP = """
import torch

def f(x):
    operator = getattr(torch.ops.aten, "lin" + "ear").default
    key = torch._C.DispatchKey.FuncTorchBatchedDecomposition
    return operator._op_dk(key, x, x)
"""
COMPILED_HELPER = """
import torch

@torch.compile(backend="aot_eager")
def product(a, b):
    return a.T @ b

def f(x):
    return product(x.clone().requires_grad_(), x).detach()
"""
CHECKS_LEFT_IN_A_MODULE = """
import torch
from torch.utils._python_dispatch import TorchDispatchMode

class Square(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x @ x

    @staticmethod
    def backward(ctx, g):
        x, = ctx.saved_tensors
        return g @ x.T + x.T @ g

class Products(TorchDispatchMode):
    count = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.count += func is torch.ops.aten.mm.default
        return func(*args, **(kwargs or {}))

def f(x):
    return x.T @ x

x = torch.ones(2, 2, requires_grad=True)
(expected,) = torch.autograd.grad((x @ x).pow(2).sum(), x)
with Products() as products:
    Square.apply(x).pow(2).sum().backward()
    f(x)
assert torch.equal(x.grad, expected) and products.count == 4
compiled = torch.compile(lambda x: x @ x, fullgraph=True)
compiled(x).sum().backward()
y = Square.apply(x)
x.detach().add_(1)
try:
    y.sum().backward()
except RuntimeError:
    y = None
assert y is None, "a change in place goes unnoticed"
"""
TRACED = """
import torch

def gradient(x):
    x = x.detach().requires_grad_()
    (x @ x).sum().backward()
    return x.grad.clone()

f = torch.jit.trace(gradient, torch.ones(2, 2), check_trace=False)
"""
SEEN_BY_A_TENSOR = """
import torch

class Seen(torch.Tensor):
    @staticmethod
    def __new__(cls, inside):
        return torch.Tensor._make_wrapper_subclass(cls, inside.shape, dtype=inside.dtype)

    def __init__(self, inside):
        self.inside = inside

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        plain = [x.inside if isinstance(x, cls) else x for x in args]
        return cls(func(*plain, **(kwargs or {})))

x = Seen(torch.ones(2, 2)).requires_grad_()
f = torch.autograd.grad(x @ x, x, Seen(torch.ones(2, 2)))
"""
ASKS_FOR_A_PROGRAM = """
import platform, uuid

def f():
    return isinstance(platform.processor(), str), isinstance(uuid.getnode(), int)
"""


@warm
@pytest.mark.parametrize(
    ("routes", "by_hand"),
    [
        ([*QUICK, "traces_a_backward_pass"], []),
        (QUICK, ["m.scale"]),  # here, torch.compile compiles nothing
        pytest.param(ROUTES, [], marks=pytest.mark.proof),
        pytest.param(ROUTES, ["m.scale"], marks=pytest.mark.proof),
    ],
)
def test_no_route_of_torch_is_an_accusation(sandbox, routes, by_hand):
    """Nor does any fail: a box without a C++ compiler runs what inductor would compile."""
    wrong = answer(sandbox, SOURCE, routes, forbidden=FORBIDDEN, by_hand=by_hand, **ALLOWED)
    assert not wrong, "\n".join(f"{name}: {why}" for name, why in wrong.items())


@warm
def test_an_operator_is_guarded_under_every_key_that_computes_it(sandbox):
    """Torch may read an operator's attributes; so no kernel of it may be left unguarded."""
    x = torch.ones(2, 2)
    fault(sandbox, PolicyBroken, FORMULA_OF_VMAP, x, forbidden=["torch.ops.aten.linear"])


@warm
@pytest.mark.parametrize(
    "source", [COMPILED_HELPER, CHECKS_LEFT_IN_A_MODULE], ids=["compiling", "left checks"]
)
def test_backward_passes_outside_of_a_function_written_by_hand_are_free(sandbox, source):
    """Compiling for inputs that require gradients traces one, which nobody runs.

    Checks that were left in a module run several.
    """
    x = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
    product = answer(sandbox, source, x, by_hand=["m.f"], **ALLOWED)
    assert product.tolist() == (x.T @ x).tolist()


@warm
@pytest.mark.parametrize("source", [TRACED, SEEN_BY_A_TENSOR], ids=["traced", "seen by a tensor"])
def test_no_backward_pass_is_written_down(sandbox, source):
    """The attacks of forbidden_autograd.py do so under a mode."""
    _, said, where = fault(sandbox, PolicyBroken, source, torch.ones(2, 2), by_hand=["m.f"])
    assert said == "calls autograd's backward pass in a trace, or on tensors that see its operators"
    assert where.startswith("assignment/m.py:")


@warm
def test_a_program_that_the_standard_library_starts_is_only_refused(sandbox):
    """The student asked for the name of the processor."""
    assert answer(sandbox, ASKS_FOR_A_PROGRAM, forbidden=["torch.nn.Linear"]) == (True, True)
