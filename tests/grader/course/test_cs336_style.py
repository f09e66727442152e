"""Code written for the public CS336 assignment runs unchanged where the signature is the same.

Each class or function here is written the way that course's students write it, with that course's
signature and nothing that the course does not ask for. This assignment asks for torch's order of
decay and ε, and for norms in half precision. Code without these may fail the tests for these
additions, and no other test.
"""

import ast
from contextlib import closing

import pytest

from grader.course import courses
from grader.grading.grade import grade
from grader.grading.local_student import LocalBox, LocalSession
from grader.submission.submissions import Submission

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("cs336")]

LINEAR = """
import math
import torch
import torch.nn as nn
from einops import einsum


class Linear(nn.Module):
    def __init__(self, in_features, out_features, device=None, dtype=None):
        super().__init__()
        factory_kwargs = {"device": device, "dtype": dtype}
        self.in_features = in_features
        self.out_features = out_features
        std = math.sqrt(1 / in_features)
        self.weight = nn.Parameter(torch.empty((out_features, in_features), **factory_kwargs))
        torch.nn.init.trunc_normal_(self.weight, mean=0.0, std=std, a=-3 * std, b=3 * std)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return einsum(x, self.weight, "... d_in, d_out d_in -> ... d_out")
"""

OPTIMIZERS = """
import math
import torch


class AdamW(torch.optim.Optimizer):
    def __init__(self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.01):
        if lr < 0:
            raise ValueError(f"Invalid learning rate: {lr}")
        defaults = {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay}
        super().__init__(params, defaults)

    def step(self, closure=None):
        loss = None if closure is None else closure()
        for group in self.param_groups:
            lr = group["lr"]
            beta1, beta2 = group["betas"]
            eps = group["eps"]
            weight_decay = group["weight_decay"]
            for p in group["params"]:
                if p.grad is None:
                    continue
                state = self.state[p]
                t = state.get("t", 1)
                m = state.get("m", torch.zeros_like(p.data))
                v = state.get("v", torch.zeros_like(p.data))
                grad = p.grad.data
                m = beta1 * m + (1 - beta1) * grad
                v = beta2 * v + (1 - beta2) * grad * grad
                alpha_t = lr * math.sqrt(1 - beta2**t) / (1 - beta1**t)
                p.data -= alpha_t * m / (torch.sqrt(v) + eps)
                p.data -= lr * weight_decay * p.data
                state["t"] = t + 1
                state["m"] = m
                state["v"] = v
        return loss


def clip_gradient_norm(parameters, max_l2_norm, eps=1e-6):
    grads = [p.grad for p in parameters if p.grad is not None]
    total = torch.sqrt(sum((g**2).sum() for g in grads))
    if total > max_l2_norm:
        for g in grads:
            g.mul_(max_l2_norm / (total + eps))
    return total


def lr_cosine_schedule(it, max_learning_rate, min_learning_rate, warmup_iters, cosine_cycle_iters):
    if it < warmup_iters:
        return it / warmup_iters * max_learning_rate
    if it > cosine_cycle_iters:
        return min_learning_rate
    progress = (it - warmup_iters) / (cosine_cycle_iters - warmup_iters)
    cosine = 0.5 * (1 + math.cos(math.pi * progress))
    return min_learning_rate + cosine * (max_learning_rate - min_learning_rate)
"""

# The tests that may fail, by problem: what this assignment asks for and CS336 does not.
MORE = {
    "linear": set(),
    "adamw": {  # torch's order of decay and step, and its placement of eps
        "test_decays_before_the_step",
        "test_adds_eps_to_the_root",
    },
    "gradient_clipping": {  # no gradient at all, and the norm in float16
        "test_no_gradient_at_all",
        "test_the_norm_is_a_tensor",
        "test_half_precision",
    },
    "lr_schedule": set(),
}


def with_the_rest_of(reference: str, source: str) -> str:
    """Complete a CS336 module with the reference's code for what only this assignment asks for."""
    theirs = {getattr(node, "name", "-") for node in ast.parse(source).body}
    ours = ast.parse(reference).body[1:]
    missing = [node for node in ours if getattr(node, "name", None) not in theirs]
    return "\n".join(map(ast.unparse, missing)) + "\n" + source


@pytest.fixture(scope="module")
def graded():
    """The results of these modules, by problem."""
    course, modules = courses.load(), {}
    for name, source in {"linear": LINEAR, "optimizers": OPTIMIZERS}.items():
        reference = (course.reference / f"{name}.py").read_text()
        modules[f"assignment/{name}.py"] = with_the_rest_of(reference, source).encode()
    submission, problems = Submission("one", modules, []), list(map(course.problem, MORE))
    with closing(LocalBox()) as box:  # this code is ours
        how = {"problems": problems, "explain": False, "session": LocalSession}
        result = grade(submission, course, box, **how)
    return {problem.id: problem for problem in result.problems}


@pytest.mark.parametrize("problem", MORE)
def test_code_of_that_course_loses_only_what_it_was_not_asked_for(graded, problem):
    assert graded[problem].status == ("failed" if MORE[problem] else "passed")
    failed = [t for t in graded[problem].tests if t.status not in ("passed", "deferred")]
    assert {test.id for test in failed} == MORE[problem]
