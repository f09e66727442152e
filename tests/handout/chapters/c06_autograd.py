"""Chapter 6: backward passes by hand, central differences, accumulation."""

import math

import torch
from torch import nn

from grader.reference import autograd as ag
from grader.reference import flop_counting as fc
from tests.handout.chapters.index import chapter, file
from tests.handout.claims import Claims, n, plain, power, scientific, section

F64, F32 = torch.float64, torch.float32
STEPS = [1e-1, 1e-3, 1e-6, 1e-10]


def rows(x: torch.Tensor) -> str:
    """`[[1, −2], [3, 4]]`: a matrix, each of its numbers a figure."""
    return "[" + ", ".join("[" + ", ".join(map(plain, row)) + "]" for row in x.tolist()) + "]"


def cube(x):
    """x³ in one multiplication after the other, so that its rounding is the same everywhere."""
    return x * x * x


def measured(f, x, eps, dtype=F64):
    """f's derivative at x by the reference's central differences."""
    return ag.numerical_gradient(f, [torch.tensor(x, dtype=dtype)], eps)[0].item()


class Chapter(Claims):
    """Every figure of the page."""

    def __init__(self) -> None:
        super().__init__("06_autograd.md")
        self.linear()
        self.by_hand()
        self.checking()
        self.accumulation()

    def linear(self) -> None:
        """Costs and conventions of single operations."""
        t, i, o = 5, 3, 7
        forward = fc.linear_flops(t, i, o)
        weight = fc.linear_flops(t, i, o, backward=True, input_grad=False) - forward
        both = fc.linear_flops(t, i, o, backward=True) - forward
        assert both == 2 * forward == 2 * weight
        assert both / (forward + both) == 2 / 3, "two thirds of all FLOPs"
        assert weight == both - (forward + both) / 3, "a third of the layer's FLOPs saved"
        each = n(weight // (t * i * o))
        self.says(
            f"| (T × o)(o × i) | {each} · T · o · i | the weight |",
            f"| (o × T)(T × i) | {each} · T · o · i | the layer's input |",
        )
        self.says(f'hence "backward is twice forward" ([§{section("flop_formulas")}]({file("flop_counting")}.md))')
        self.says(f"until the backward pass comes by ({chapter('activation_checkpointing')})")
        x = torch.tensor([-1e-300, 0.0, 1e-300], dtype=F64, requires_grad=True)
        (gradient,) = torch.autograd.grad(x.relu().sum(), x)
        assert gradient.tolist() == [0, 0, 1]
        self.says(
            f"where its input was above {plain(x[1].item())} and nothing elsewhere. At exactly {plain(x[1].item())} there is no "
            f"derivative, and torch takes {plain(gradient[1].item())}."
        )
        a = torch.ones(1, 3, 2, requires_grad=True)
        ag.MatMul.apply(a, torch.ones(4, 2, 5)).sum().backward()
        self.says(f"those where it has size {n(len(a.grad))}, which stay", f"where the operand has size {n(len(a.grad))}.")

        batch, width = 64, 32
        per_weight = both // (t * i * o)
        first = (fc.mlp_flops(batch, (width, width), backward=True) - fc.mlp_flops(batch, (width, width))) // (batch * width**2)
        assert per_weight * batch * width**2 - first * batch * width**2 == 2 * batch * width**2
        self.says(
            f"| the backward pass takes {n(per_weight)} FLOPs for each weight and vector | {n(first)} in the first layer: with B vectors and "
            f"D × D weights {n(per_weight - first)}BD{n('²')} less, as data needs no gradient ([§{section('flop_formulas')}]({file('flop_counting')}.md)) |"
        )

    def by_hand(self) -> None:
        """The worked backward pass."""
        x, w1, w2, g = (torch.tensor(m, dtype=F64) for m in ([[1, 2], [3, -1]], [[1, 1], [2, -1]], [[3, 4]], [[1], [10]]))
        hidden = x @ w1.T
        y = hidden.relu() @ w2.T
        grad_w1, grad_w2 = ag.mlp_backward(x, w1, w2, g)
        back, masked = g @ w2, (g @ w2) * (hidden > 0)
        assert hidden.min() == 0, "after the ReLU the same"
        terms = (g * hidden.relu()).T
        self.says(
            f"x = {rows(x)}, W₁ = {rows(w1)}, W₂ = {rows(w2)}. Before the ReLU the hidden layer is {rows(hidden)}, and after it the same; "
            f"y = {rows(y)}. Let G be {rows(g)}."
        )
        sums = ", ".join(" + ".join(map(plain, row)) for row in terms.tolist())
        self.says(f"W₂ gets Gᵀ h = [[{sums}]] = {rows(grad_w2)}.")
        assert torch.equal(masked.T @ x, grad_w1)
        assert hidden[0, 1] == 0, "the second unit, for the first vector"
        self.says(
            f"Towards W₁, G W₂ = {rows(back)} becomes {rows(masked)}, as the second unit was at {n(0)} for the first vector. "
            f"Transposed and multiplied by x that is {rows(grad_w1)}, which W₁ gets."
        )

    def checking(self) -> None:
        """Central differences and their errors."""
        eps = 1e-2
        holds = []
        for x in (0.3, 1.0, 2.0):
            sine = measured(torch.sin, x, eps) - math.cos(x) + eps**2 / 6 * math.cos(x)
            holds += [abs(sine) < eps**4, abs(measured(cube, x, eps) - 3 * x**2 - eps**2 / 6 * 6) < 1e-12]
            holds.append(abs((math.sin(x + eps) - math.sin(x - eps)) / (2 * eps) - measured(torch.sin, x, eps)) < 1e-12)
        self.formula(
            r"\frac{f(x + \varepsilon) - f(x - \varepsilon)}{2 \varepsilon} = f′(x) + \frac{\varepsilon^2}{6} f‴(x) + \ldots",
            holds,
        )
        one_sided = [((math.sin(x + 1e-6) - math.sin(x)) / 1e-6 - math.cos(x)) / (-math.sin(x) * 1e-6 / 2) for x in (0.5, 1.0)]
        self.formula("are off by ε f″/2.", [abs(ratio - 1) < 1e-3 for ratio in one_sided])
        digits = round(math.log10(torch.finfo(F64).eps))
        assert (
            abs(measured(cube, 2.0, 1e-10) - 12) < 10**digits * cube(2.0) / 1e-10 < 100 * abs(measured(cube, 2.0, 1e-10) - 12)
        )
        self.says(f"to about {power(10, digits)} |f| / ε in float64")
        at = 2.0
        first, second, third = (math.perm(3, k) * at ** (3 - k) for k in (1, 2, 3))
        self.says(
            f"For x{n('³')} at {plain(at)}, where the derivative is {plain(first)}, f″ = {plain(second)} and f‴ = {plain(third)}, the"
        )
        for eps in STEPS:
            forward = (cube(at + eps) - cube(at)) / eps
            errors = [abs(got - first) for got in (forward, measured(cube, at, eps), measured(cube, at, eps, F32))]
            self.says(f"| {scientific(eps, 0)} | {' | '.join(map(scientific, errors))} |")
        assert measured(cube, at, STEPS[-1], F32) == 0
        assert torch.tensor(at + STEPS[-1], dtype=F32) == at
        best = [scientific(torch.finfo(dtype).eps ** (1 / 3), 0) for dtype in (F64, F32)]
        self.says(
            f"near the cube root of the format's eps ([§{section('precision')}]({file('precision')}.md)): {best[0]} in float64, {best[1]} in float32"
        )
        self.says(f"cannot tell {plain(at)} + ε from {plain(at)}, so the measured gradient is {n(0)}.")

    def accumulation(self) -> None:
        """Three rows in chunks of two."""
        losses = torch.tensor([[1.0], [2.0], [6.0]], dtype=F64)
        model = nn.Linear(1, 1, bias=False, dtype=F64)
        nn.init.ones_(model.weight)
        mean = ag.accumulate_gradients(model, lambda output, _: output.mean(), losses, losses, 2)
        assert abs(mean - losses.mean().item()) < 1e-15
        assert abs(model.weight.grad.item() - mean) < 1e-15
        chunks = losses.split(2)
        means = [chunk.mean().item() for chunk in chunks]
        shares = [f"{plain(m)} · {n(len(chunk))}/{n(len(losses))}" for m, chunk in zip(means, chunks, strict=True)]
        first, second, third = losses.flatten().tolist()
        self.says(
            f"Three rows with losses {plain(first)}, {plain(second)} and {plain(third)}, in chunks of two. The chunks' means are {plain(means[0])} and "
            f"{plain(means[1])}, and the mean of all is {' + '.join(shares)} = {plain(mean)}. Dividing by the number of chunks gives "
            f"{plain(sum(means) / len(means))}: the row in the short chunk counts double."
        )
        assert (1 / len(chunks)) / len(chunks[1]) == 2 * (1 / len(chunks)) / len(chunks[0])
