"""What torch calls by itself is never taken for a call of the student's."""

import re
from pathlib import Path

import torch

from tests.grader.in_the_sandbox import COURSE, answer, warm

SOURCE = (Path(__file__).parent / "routes_of_torch.py").read_text()
ROUTES = re.findall(r"^def (through_\w+)", SOURCE, re.MULTILINE)
FORBIDDEN = [name for problem in COURSE.problems for name in problem.forbidden]
ALLOWED = {"memory_bytes": 2**31, "file_bytes": 2**26, "processes": COURSE.limits.processes}

COMPILED_HELPER = """
import torch

@torch.compile(backend="aot_eager")
def product(a, b):
    return a.T @ b

def f(x):
    return product(x.clone().requires_grad_(), x).detach()
"""
ASKS_FOR_A_PROGRAM = """
import platform, uuid

def f():
    return isinstance(platform.processor(), str), isinstance(uuid.getnode(), int)
"""


@warm
def test_no_route_of_torch_is_an_accusation(sandbox):
    """Nor does any fail: a box without a C++ compiler runs what inductor would compile."""
    wrong = answer(sandbox, SOURCE, ROUTES, forbidden=FORBIDDEN, by_hand=["m.scale"], **ALLOWED)
    assert not wrong, "\n".join(f"{name}: {why}" for name, why in wrong.items())


@warm
def test_compiling_inside_a_function_written_by_hand_traces_no_backward_pass(sandbox):
    """Compiling for inputs that require gradients traces a backward pass, which nobody runs."""
    x = torch.tensor([[1.0, 2.0]])
    product = answer(sandbox, COMPILED_HELPER, x, by_hand=["m.f"], **ALLOWED)
    assert product.tolist() == [[1, 2], [2, 4]]


@warm
def test_a_program_that_the_standard_library_starts_is_only_refused(sandbox):
    """The student asked for the name of the processor."""
    assert answer(sandbox, ASKS_FOR_A_PROGRAM, forbidden=["torch.nn.Linear"]) == (True, True)
