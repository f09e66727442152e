"""Chapter 7: linear layers, their first values, their parameters."""

import math
from collections.abc import Callable

import torch

from grader.reference import flop_counting as fc
from grader.reference import linear as li
from grader.reference import resource_accounting as ra
from tests.handout.chapters.c05_resource_accounting import GPT3
from tests.handout.chapters.c06_autograd import rows
from tests.handout.chapters.index import chapter, file
from tests.handout.claims import Claims, n, plain, scientific, section, short

BOUND = 3  # standard deviations
BEYOND = math.erfc(BOUND / math.sqrt(2))  # the share of a normal distribution outside
FFN = GPT3.d_model, GPT3.d_ff, GPT3.d_model


def seeded(make: Callable[[], torch.nn.Module]) -> torch.nn.Module:
    """A module whose first values are the same each time."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return make()


def growth(width: int, sigma: float) -> float:
    """By what one layer of that width multiplies the standard deviation of its input."""
    return sigma * math.sqrt(width)


class Chapter(Claims):
    """Every figure of the page."""

    def __init__(self) -> None:
        super().__init__("07_linear.md")
        self.costs()
        self.first_values()
        self.truncation()
        self.worked()

    def costs(self) -> None:
        """Parameters and FLOPs."""
        size = ra.transformer_parameters(GPT3)
        inside = size - GPT3.vocab_size * GPT3.d_model
        self.says(
            f"Of the {short(size, 1)} parameters that {chapter('resource_accounting')} counts for GPT-3, {n(100 * inside / size, '.1f')} % stand"
        )
        self.says(f"The transpose is a view ([§{section('storage_views')}]({file('tensor_memory')}.md))")
        t, i, o = 5, 3, 7
        self.says(f"{n(fc.linear_flops(t, i, o) // (t * i * o))} · T · in · out FLOPs")
        ffn = li.count_parameters(li.MLP(FFN, device="meta"))
        self.says(f"matrices of one layer of GPT-3, {n(ffn * torch.float32.itemsize / 1e9, '.1f')} GB in float32")

    def first_values(self) -> None:
        """Why 1/√in."""
        shapes = [(256, 2048), (1024, 512)]
        layers = [(i, seeded(lambda i=i, o=o: li.Linear(i, o, dtype=torch.float64))) for i, o in shapes]
        holds = []
        for i, layer in layers:
            weight = layer.weight.detach()
            x = torch.randn(2000, i, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
            holds.append(abs((layer(x).var() / (i * weight.var())).item() - 1) < 0.05)
            assert abs(weight.std() * math.sqrt(i) - truncated_std()) < 0.005
        self.formula(r"\text{variance of an output} = \text{in} \cdot \sigma^2", holds)
        self.says(
            f"with mean {n(0)} and variance {n(1)}, and weights have mean {n(0)} and variance σ{n('²')}, each product has variance σ{n('²')},"
        )
        self.says(f"**Why {n(1)}/√in.**")
        (unit,) = {round(i * (1 / math.sqrt(i)) ** 2, 9) for i, _ in layers}
        self.says(f"With σ = {n(1)}/√in it is {plain(unit)} again, however wide the layer is")
        signal = torch.linspace(-1, 1, 1001, dtype=torch.float64)
        kept = (signal.relu().square().mean() / signal.square().mean()).item()
        self.says(f"for which some texts take √{plain(1 / kept)}/√in; here it is {n(1)}/√in for every layer.")
        depth, width = 20, 1024
        small, large = growth(width, 0.02), growth(width, 0.05)
        self.says(
            f"twenty layers of width {n(width, ',')} with σ = {n(0.02)} shrink a signal by {plain(small)} each, together to {scientific(small**depth)} "
            f"of what it was. With σ = {n(0.05)} the factor is {plain(large)} each, together {n(large**depth, ',.0f')}."
        )

    def truncation(self) -> None:
        """Why and where it is cut."""
        share = n(100 * BEYOND, ".2f")
        weights = GPT3.d_model * GPT3.d_ff
        self.says(
            f"Beyond three standard deviations lie {share} % of them: of the {n(weights, ',')} weights of a feed-forward matrix of GPT-3 "
            f"that would be {n(weights * BEYOND / 1e6, '.1f')} million. So draws beyond ±{n(BOUND)}σ are drawn again."
        )
        inputs = 4
        sigma = 1 / math.sqrt(inputs)
        weight = seeded(lambda: li.Linear(inputs, 20_000)).weight
        assert 0.99 < weight.abs().max() / (BOUND * sigma) <= 1
        self.says(
            f"With in = {n(inputs)}, and so σ = {plain(sigma)}, no weight is beyond {plain(BOUND * sigma)}. They are not moved to the bound, where {share} % of"
        )
        self.says(f"makes the standard deviation {n(100 * (1 - truncated_std()), '.1f')} % smaller than σ")
        std = 0.02
        bound = _short(BOUND * std)
        self.says(f"Three standard deviations of {plain(std)} are `a=-{n(bound)}, b={n(bound)}`.")
        self.says(
            f"| `trunc_normal_(w, std={plain(std)}, a=-{n(BOUND)}, b={n(BOUND)})` cuts at three standard deviations | ±{n(BOUND)} is "
            f"{plain(BOUND / std)} of them out and cuts nothing; three are ±{n(bound)} |"
        )

    def worked(self) -> None:
        """A weight of two numbers, an MLP of 18."""
        layer = li.Linear(2, 1)
        layer.load_state_dict({"weight": torch.tensor([[2.0, 3.0]])})
        x = torch.tensor([1.0, 10.0])
        pairs = " + ".join(f"{plain(w)} · {plain(v)}" for w, v in zip(layer.weight[0].tolist(), x.tolist(), strict=True))
        numbers = ", ".join(map(plain, x.tolist()))
        self.says(
            f"W = {rows(layer.weight)} has one output for two inputs. It takes x = ({numbers}) to {pairs} = {plain(layer(x).item())}."
        )
        dims, batch = (4, 3, 2), 8
        model = li.MLP(dims)
        shapes = [tuple(p.shape) for p in model.parameters()]
        total = li.count_parameters(model)
        products = " + ".join(f"{n(o)} · {n(i)}" for o, i in shapes)
        shown = " and ".join(f"({n(o)}, {n(i)})" for o, i in shapes)
        bytes_taken = sum(p.numel() * p.element_size() for p in model.parameters())
        flops = fc.mlp_flops(batch, dims)
        assert flops == 2 * batch * total
        self.says(
            f"An MLP of sizes ({', '.join(map(n, dims))}) has two layers, with weights of shape {shown}. They have {products} = {n(total)} parameters, "
            f"{n(bytes_taken)} bytes in float32. Eight vectors through it take {n(2)} · {n(batch)} · {n(total)} = {n(flops)} FLOPs."
        )
        next(model.parameters()).requires_grad_(False)
        self.says(f"{n(li.count_parameters(model, trainable_only=True))} of the {n(total)} are trainable.")


def truncated_std() -> float:
    """Of a normal distribution with standard deviation 1, cut off at ±BOUND."""
    density = math.exp(-(BOUND**2) / 2) / math.sqrt(2 * math.pi)
    return math.sqrt(1 - 2 * BOUND * density / (1 - BEYOND))


def _short(value: float) -> str:
    return f"{value:.10f}".rstrip("0")
