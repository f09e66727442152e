"""Chapter 8: optimizers, clipping, the schedule."""

import math
from collections.abc import Callable, Sequence
from itertools import pairwise

import torch

from grader.reference import optimizers as op
from grader.reference import resource_accounting as ra
from tests.handout.chapters.index import chapter, file
from tests.handout.claims import Claims, n, plain, power, scientific, section, short

F64, F32 = torch.float64, torch.float32
ADAMW_FP32 = ra.TrainingRecipe(F32, F32, (F32, F32))
GRADIENTS = [0.3, -0.02, 0.0, 1.5, -0.7, 0.01]  # for formulas
BETA1, BETA2 = 0.9, 0.999  # torch's defaults
Make = Callable[[list[torch.Tensor]], torch.optim.Optimizer]


def steps(make: Make, gradients: Sequence[float], p: float = 1.0) -> list[float]:
    """The parameter after each step of an optimizer, one gradient a step."""
    parameter = torch.tensor([p], dtype=F64, requires_grad=True)
    optimizer = make([parameter])
    after = []
    for g in gradients:
        parameter.grad = torch.tensor([g], dtype=F64)
        optimizer.step()
        after.append(parameter.item())
    return after


def same(got: Sequence[float], expected: Sequence[float]) -> list[bool]:
    """Up to rounding."""
    return [math.isclose(a, b, rel_tol=1e-12, abs_tol=1e-15) for a, b in zip(got, expected, strict=True)]


def simple(rule: Callable[[float, float], tuple[float, float]], p: float = 1.0) -> list[float]:
    """The parameter after each gradient by a rule (remembered, g) -> (remembered, step)."""
    kept, after = 0.0, []
    for g in GRADIENTS:
        kept, step = rule(kept, g)
        p -= step
        after.append(p)
    return after


def adamw(gradients: Sequence[float], lr: float, beta1: float, beta2: float, eps: float, decay: float) -> list[float]:
    """The formula of the page, line by line."""
    p, m, v, after = 1.0, 0.0, 0.0, []
    for t, g in enumerate(gradients, 1):
        p = p - lr * decay * p
        m, v = beta1 * m + (1 - beta1) * g, beta2 * v + (1 - beta2) * g**2
        p = p - lr * (m / (1 - beta1**t)) / (math.sqrt(v / (1 - beta2**t)) + eps)
        after.append(p)
    return after


def kept_bytes(make: Make) -> int:
    """What an optimizer keeps for a parameter in float32, in bytes."""
    p = torch.zeros(3, 4, requires_grad=True)
    p.grad = torch.ones_like(p)
    optimizer = make([p])
    optimizer.step()
    return op.optimizer_state_bytes(optimizer)


def decimal(value: float, digits: int = 12) -> str:
    """The shortest decimal form of a number of so many decimals, as a figure."""
    return plain(round(value, digits))


class Chapter(Claims):
    """Every figure of the page."""

    def __init__(self) -> None:
        super().__init__("08_optimizers.md")
        total = ra.bytes_per_parameter(ADAMW_FP32)
        self.says(
            f"with AdamW in float32 it is {n(sum(d.itemsize for d in ADAMW_FP32.optimizer_state))} of {n(total)} bytes a parameter"
        )
        self.says(f"{chapter('training', 'Chapter')} puts them into a loop", f"the right one ({chapter('training')}).")
        self.three()
        self.state()
        self.worked_three()
        self.adamw()
        self.eps()
        self.adamw_costs()
        self.elsewhere()
        self.clipping()
        self.schedule()

    def three(self) -> None:
        """Formulas of 8.1."""
        lr, mu, alpha, eps = 0.1, 0.6, 0.7, 0.05
        sgd = steps(lambda p: op.SGD(p, lr, mu), GRADIENTS)
        adagrad = steps(lambda p: op.AdaGrad(p, lr, eps), GRADIENTS)
        rmsprop = steps(lambda p: op.RMSProp(p, lr, alpha, eps), GRADIENTS)
        self.formula(
            r"\text{AdaGrad} & s \leftarrow s + g^2 & p \leftarrow p - \text{lr} \cdot g / (\sqrt{s} + \varepsilon) \\",
            same(adagrad, simple(lambda s, g: (s + g**2, lr * g / (math.sqrt(s + g**2) + eps)))),
        )

        def mean_square(v: float, g: float) -> tuple[float, float]:
            v = alpha * v + (1 - alpha) * g**2
            return v, lr * g / (math.sqrt(v) + eps)

        self.formula(r"v \leftarrow \alpha v + (1 - \alpha) g^2 & p", same(rmsprop, simple(mean_square)))
        swapped = steps(lambda p: op.RMSProp(p, lr, 1 - alpha, eps), GRADIENTS)

        def exchanged(v: float, g: float) -> tuple[float, float]:
            v = (1 - alpha) * v + alpha * g**2
            return v, lr * g / (math.sqrt(v) + eps)

        assert not any(same(rmsprop, swapped))
        self.formula("α and 1 − α exchanged", same(swapped, simple(exchanged)))
        assert all(same(sgd, simple(lambda b, g: (mu * b + g, lr * (mu * b + g)))))
        self.says(f"Each of b, s and v starts at {n(0)}, squares", f"As v starts at {n(0)}, it is too small")

        sums = [sum(mu**k for k in range(5000)) for mu in (0.5, 0.9, 0.99)]
        self.formula("g · (1 + μ + μ² + …) = g / (1 − μ).", same(sums, [1 / (1 - mu) for mu in (0.5, 0.9, 0.99)]))
        *_, before, last = [0.0, *steps(lambda p: op.SGD(p, 1.0, 0.9), [1.0] * 500)]
        assert round(before - last, 9) == 10, "ten times as long"
        self.says(f"With μ = {n(0.9)} the steps grow ten times as long")
        rate = 0.1
        plain_mean = steps(lambda p: op.SGD(p, rate, mu), GRADIENTS)
        other = simple(lambda b, g: (mu * b + (1 - mu) * g, rate * (mu * b + (1 - mu) * g)))
        shorter = same([1 - x for x in other], [(1 - mu) * (1 - x) for x in plain_mean])  # (1 − μ) times as far
        self.formula("with (1 − μ) g in place of g", shorter)
        self.formula("- (1 − μ) g in the momentum.", shorter)

        ones = [1.0, *steps(lambda p: op.AdaGrad(p, 1.0, 0.0), [0.3] * 50)]
        moved = [a - b for a, b in pairwise(ones)]
        self.formula("the steps have shrunk like 1/√t.", same(moved, [1 / math.sqrt(t) for t in range(1, 51)]))
        a = 0.99
        memory = sum(a**k for k in range(5000))
        self.formula("for about 1 / (1 − α) steps", math.isclose(memory, 1 / (1 - a)))
        self.says(f"steps, which is {n(memory, '.0f')} for α = {n(a)}.")
        ((first),) = steps(lambda p: op.RMSProp(p, 1.0, a, 0.0), [0.3])
        self.formula("√v = √(1 − α) |g|", math.isclose(1 - first, 0.3 / (math.sqrt(1 - a) * 0.3)))
        self.says(
            f"so with α = {n(a)} that step is {n(1 - first, '.0f')} times lr long. Adam corrects for this ([§{section('adamw')}]({file('optimizers')}.md))"
        )

    def state(self) -> None:
        """What is kept, in bytes."""
        elements, parameters = 12, 7 * 10**9
        kinds: dict[str, list[Make]] = {
            "SGD": [op.SGD],
            "SGD with momentum, AdaGrad, RMSProp": [lambda p: op.SGD(p, momentum=0.9), op.AdaGrad, op.RMSProp],
            "Adam, AdamW": [torch.optim.Adam, op.AdamW],
        }
        self.says(f"For {short(parameters)} parameters in float32:")
        for name, makes in kinds.items():
            (kept,) = {kept_bytes(make) for make in makes}
            numbers = kept // (elements * F32.itemsize)
            self.says(f"| {name} | {n(numbers)} | {n(parameters * kept // elements // 10**9)} GB |")
        shown = [kept_bytes(kind) for kind in (torch.optim.SGD, torch.optim.RMSprop, torch.optim.AdamW)]
        self.says(f"leaves it out: {n(shown[0])}, {n(shown[1])} and {n(shown[2])} bytes.")

    def worked_three(self) -> None:
        """One or two steps of each."""
        p, lr = 1.0, 0.1
        self.says(f"Each starts with p = {plain(p)} and lr = {n(lr)}.")
        mu, g = 0.5, 2.0
        first, second = steps(lambda x: op.SGD(x, lr, mu), [g, g], p)
        b1, b2 = (p - first) / lr, (first - second) / lr
        self.says(
            f"- SGD with μ = {n(mu)} and g = {plain(g)} twice: b is {decimal(b1)}, then {n(mu)} · {decimal(b1)} + {plain(g)} = {decimal(b2)}, so p is "
            f"{decimal(first)}, then {decimal(second)}."
        )
        eps, g1, g2 = 1.0, 3.0, 4.0
        first, second = steps(lambda x: op.AdaGrad(x, lr, eps), [g1, g2], p)
        assert math.isclose(first, p - lr * g1 / (math.sqrt(g1**2) + eps))
        assert math.isclose(second, first - lr * g2 / (math.sqrt(g1**2 + g2**2) + eps))
        self.says(
            f"- AdaGrad with ε = {plain(eps)} and g = {plain(g1)}, then {plain(g2)}: s is {plain(g1**2)}, then {plain(g1**2 + g2**2)}, so "
            f"p = {plain(p)} − {decimal(lr * g1)} / {plain(math.sqrt(g1**2) + eps)} = {decimal(first)}, then "
            f"{decimal(first)} − {decimal(lr * g2)} / {plain(math.sqrt(g1**2 + g2**2) + eps)} = {decimal(second, 4)}."
        )
        alpha, g = 0.75, 2.0
        (first,) = steps(lambda x: op.RMSProp(x, lr, alpha, eps), [g], p)
        v = (1 - alpha) * g**2
        self.says(
            f"- RMSProp with α = {n(alpha)}, ε = {plain(eps)} and g = {plain(g)}: v = {plain(1 - alpha)} · {plain(g**2)} = {plain(v)}, so p = {plain(p)} − "
            f"{decimal(lr * g)} / {plain(math.sqrt(v) + eps)} = {decimal(first)}."
        )
        mu = op.SGD([torch.zeros(1)]).defaults["momentum"]
        assert kept_bytes(lambda parameters: op.SGD(parameters, momentum=mu)) == 0
        self.says(f"or one that is kept although μ is {plain(mu)}.")
        self.says(f"{n(F32.itemsize)} bytes for every dtype")

    def adamw(self) -> None:
        """Formula, correction, decay of 8.2."""
        options = {"lr": 0.1, "betas": (0.8, 0.95), "eps": 0.02, "weight_decay": 0.3}
        got = steps(lambda p: op.AdamW(p, **options), GRADIENTS)
        self.formula(
            r"\begin{aligned} "
            r"t &\leftarrow t + 1 \\ "
            r"p &\leftarrow p - \text{lr} \cdot \lambda \cdot p \\ "
            r"m &\leftarrow \beta_1 m + (1 - \beta_1) g \\ "
            r"v &\leftarrow \beta_2 v + (1 - \beta_2) g^2 \\ "
            r"\hat{m} &= \frac{m}{1 - \beta_1^t} \\ "
            r"\hat{v} &= \frac{v}{1 - \beta_2^t} \\ "
            r"p &\leftarrow p - \text{lr} \cdot \frac{\hat{m}}{\sqrt{\hat{v}} + \varepsilon} "
            r"\end{aligned}",
            same(got, adamw(GRADIENTS, 0.1, 0.8, 0.95, 0.02, 0.3)),
        )
        g, m, v = 0.3, 0.0, 0.0
        holds = []
        for t in range(1, 20):
            m, v = BETA1 * m + (1 - BETA1) * g, BETA2 * v + (1 - BETA2) * g**2
            holds += same([m, v], [(1 - BETA1**t) * g, (1 - BETA2**t) * g**2])
        self.formula("m is (1 − β₁ᵗ) g after t steps, and v is (1 − β₂ᵗ) g²:", holds)
        one, two = decimal(1 - BETA1), decimal(1 - BETA2)
        uncorrected = (1 - BETA1) / math.sqrt(1 - BETA2)
        assert op.AdamW([torch.zeros(1)]).defaults["betas"] == (BETA1, BETA2)
        self.says(f"Both means start at {n(0)}, so early")
        self.says(
            f"with β₁ = {n(BETA1)} and β₂ = {n(BETA2)} they are {one} and {two} in the first step, which without a correction would be "
            f"{one} / √{two} = {n(uncorrected, '.2f')} times lr long."
        )
        self.says(f"pulls each weight towards {n(0)}.")
        p, g, lr, decay = 1.0, 10.0, 0.1, 0.5
        with_l2, without = (steps(lambda x, d=d: torch.optim.Adam(x, lr, weight_decay=d), [g], p)[0] for d in (decay, 0.0))
        assert math.isclose(with_l2, without), "does not notice"
        self.says(f"Here a weight of {plain(p)} has a gradient of {plain(g)}. L2 adds {plain(decay * p)} to the gradient")
        (after,) = steps(lambda x: op.AdamW(x, lr, eps=0.0, weight_decay=decay), [1e-3], p)
        self.formula("AdamW multiplies p by 1 − lr · λ |", math.isclose(after + lr, p * (1 - lr * decay)))
        fresh = torch.zeros(1, requires_grad=True)
        optimizer = op.AdamW([fresh])
        optimizer.step()
        assert not optimizer.state, "one whose gradient was None has not stepped"
        fresh.grad = torch.ones(1)
        optimizer.step()
        self.says(f"when it gets its first gradient, its t is {n(int(optimizer.state[fresh]['step']))}.")
        self.says(f"a resumed run starts them at {n(0)}.")

        g, eps = 0.01, 0.01
        first, second = steps(lambda x: op.AdamW(x, lr, eps=eps, weight_decay=decay), [g, g], p)
        decayed = p - lr * decay * p
        moved = lr * g / (g + eps)
        self.says(
            f"p = {plain(p)}, g = {n(g)} at every step, lr = {n(lr)}, ε = {n(eps)}, λ = {n(decay)}. The decay gives {plain(p)} − {n(lr)} · {n(decay)} · {plain(p)} = {decimal(decayed)}. "
            f"As g is constant, m̂ = {n(g)} and √v̂ = {n(g)} at every step, which moves p by {n(lr)} · {n(g)} / {n(g + eps)} = {decimal(moved)}. "
            f"So p is {decimal(first)} after one step, and {decimal(first)} · {decimal(1 - lr * decay)} − {decimal(moved)} = {decimal(second)} after two."
        )

    def eps(self) -> None:
        """Where ε may stand, and what the first step then is."""
        lr = 0.1
        cases = [(1.0, 1e-8), (0.01, 0.01)]
        rows: dict[str, list[float]] = {
            "√v̂ + ε, as here": [],
            "√(v̂ + ε)": [],
            "√v + ε, and the corrections outside the quotient": [],
        }
        here, inside, before = rows.values()
        for g, eps in cases:
            m, v = (1 - BETA1) * g, (1 - BETA2) * g**2
            here += [1 - step for step in steps(lambda p, eps=eps: op.AdamW(p, lr, eps=eps, weight_decay=0.0), [g])]
            inside.append(lr * g / math.sqrt(g**2 + eps))
            before.append(lr * math.sqrt(1 - BETA2) / (1 - BETA1) * m / (math.sqrt(v) + eps))
        self.says(
            f"The first step with lr = {n(lr)}: | | g = {plain(cases[0][0])}, ε = {scientific(cases[0][1], 0)} | g = {n(cases[1][0])}, ε = {n(cases[1][1])} |"
        )
        for name, moved in rows.items():
            self.says(f"| {name} | {' | '.join(n(x, '.4f') for x in moved)} |")
        self.says(f"gradients near {plain(cases[0][0])} every form passes")
        norm, parameters, eps = 1, 10**9, 1e-8
        entry = norm / math.sqrt(parameters)
        inside = entry / math.sqrt(entry**2 + eps)
        (after,) = steps(lambda p: op.AdamW(p, 1.0, eps=eps, weight_decay=0.0), [entry])
        self.says(
            f"a gradient of norm {n(norm)} over {short(parameters)} parameters has entries of about {scientific(entry)}. Even with ε = {scientific(eps, 0)}, inside "
            f"the root it lets such a weight move by {n(inside, '.2f')} lr in the first step, where it should be {n(1 - after, '.2f')} lr."
        )

    def adamw_costs(self) -> None:
        """Bytes and milliseconds."""
        parts = [F32, F32, *ADAMW_FP32.optimizer_state]
        total = ra.bytes_per_parameter(ADAMW_FP32)
        memory = 80 * 10**9
        most = ra.max_parameters(memory, ADAMW_FP32)
        moved = (4 + 3) * F32.itemsize
        flops = 15  # a count of the formula's operations, fused multiply-adds taken as two
        assert not ra.is_compute_bound(flops, moved, ra.H100_SXM, F32)
        self.says(
            f"take {' + '.join(n(d.itemsize) for d in parts)} = {n(total)} bytes a parameter in float32. {n(memory // 10**9)} GB hold at most {short(most)} parameters, "
            f"before a single activation, and {short(7e9)} take {n(7 * total)} GB."
        )
        milliseconds = 1000 * ra.roofline_seconds(flops * most, moved * most, ra.H100_SXM, F32)
        self.says(
            f"{n(moved)} bytes a parameter for some fifteen FLOPs, so it is memory-bound ([§{section('roofline')}]({file('resource_accounting')}.md)): {short(most)} parameters "
            f"take {n(milliseconds, '.0f')} ms on an H100"
        )

    def elsewhere(self) -> None:
        """The other form of the step, and what ε is in it."""
        eps, holds = 0.02, []
        m = v = 0.0
        for t, g in enumerate(GRADIENTS, 1):
            m, v = BETA1 * m + (1 - BETA1) * g, BETA2 * v + (1 - BETA2) * g**2
            other = math.sqrt(1 - BETA2**t) / (1 - BETA1**t) * m / (math.sqrt(v) + eps)
            ours = m / (1 - BETA1**t) / (math.sqrt(v / (1 - BETA2**t)) + eps / math.sqrt(1 - BETA2**t))
            holds += same([other], [ours])
        self.formula("| lr · √(1 − β₂ᵗ) / (1 − β₁ᵗ) · m / (√v + ε) |", holds)
        self.formula("in effect ε / √(1 − β₂ᵗ), in the", holds)
        self.says(f"the same only for ε = {n(0)}:", f"in the first step {n(1 / math.sqrt(1 - BETA2), '.1f')} times as large |")

    def clipping(self) -> None:
        """Section 8.3."""
        values = [[3.0], [0.0, 4.0]]

        def clipped(largest: float, eps: float = 1e-6) -> tuple[list[torch.Tensor], float]:
            parameters = [torch.zeros(len(value), dtype=F64, requires_grad=True) for value in values]
            for parameter, value in zip(parameters, values, strict=True):
                parameter.grad = torch.tensor(value, dtype=F64)
            norm = op.clip_gradient_norm(parameters, largest, eps).item()
            return [parameter.grad for parameter in parameters], norm

        def shown(gradients: Sequence[torch.Tensor], digits: int = 12) -> str:
            return " and ".join("[" + ", ".join(decimal(x, digits) for x in g.tolist()) + "]" for g in gradients)

        whole = [torch.tensor(value, dtype=F64) for value in values]
        lengths = [g.norm().item() for g in whole]
        gradients, norm = clipped(1.0, 5.0)
        self.formula("‖g‖² = ‖g₁‖² + ‖g₂‖² + …", math.isclose(norm**2, sum(length**2 for length in lengths)))
        squares = " + ".join(plain(length**2) for length in lengths)
        self.says(
            f"Gradients {shown(whole)} have the norms {plain(lengths[0])} and {plain(lengths[1])}, together √({squares}) = {plain(norm)}. "
            f"- With max = {n(1)} and ε = {n(5)} the factor is {n(1)} / ({plain(norm)} + {n(5)}), which leaves {shown(gradients)}."
        )
        eps = 1e-6
        gradients, _ = clipped(1.0)
        off = 1 - gradients[0].item() / (whole[0][0].item() / norm)
        length = torch.cat(gradients).norm().item()
        self.says(
            f"- With max = {n(1)} and the usual ε = {scientific(eps, 0)} they become {shown(gradients, 6)} up to {n(off * 1e7, '.0f')} parts in {power(10, 7)}, with the norm {decimal(length, 6)}."
        )
        gradients, norm = clipped(5.0)
        assert all(torch.equal(a, b) for a, b in zip(gradients, whole, strict=True))
        self.says(f"- With max = {plain(norm)} nothing changes")
        self.says(f"gradients have been added ([§{section('autograd')}]({file('autograd')}.md))")
        self.says(f"which gradients of {n(1)} do not show")

    def schedule(self) -> None:
        """Section 8.4."""
        most, least, w, c = 1.0, 0.1, 10, 30

        def rate(it: int) -> float:
            return op.lr_cosine_schedule(it, most, least, w, c)

        self.formula(
            "min + (max − min) · (1 + cos(π x)) / 2, where x",
            same(
                [rate(it) for it in range(w, c)],
                [least + (most - least) * (1 + math.cos(math.pi * (it - w) / (c - w))) / 2 for it in range(w, c)],
            ),
        )
        assert all(same([rate(it) for it in range(w)], [most * it / w for it in range(w)]))
        top, bottom = 1 + math.cos(0), 1 + math.cos(math.pi)
        self.says(f"so the rate begins at {plain(rate(0))} and rises")
        self.says(f"{n(1)} + cos falls from {plain(top)} to {plain(bottom)} as its angle goes from {n(0)} to π")
        assert op.lr_cosine_schedule(0, most, least, 0, 5) == most
        self.says(
            f"With w = {n(0)} there is no warm-up", f"In iteration {n(0)} of a warm-up the rate is {plain(rate(0))}: that"
        )
        its = [0, 5, 10, 15, 20, 25, 30, 1000]
        self.says(f"With max = {plain(most)}, min = {n(least)}, w = {n(w)}, c = {n(c)}:")
        self.says(f"| it | {' | '.join(map(n, its))} |", f"| rate | {' | '.join(decimal(rate(it), 3) for it in its)} |")
        it = 15
        x = (it - w) / (c - w)
        self.says(
            f"At {n(it)} x is {n(it - w)} / {n(c - w)} = {plain(x)}, so the rate is {n(least)} + {plain(most - least)} · ({n(1)} + {n(math.cos(math.pi * x), '.4f')}) / {n(2)} = {decimal(rate(it), 3)}."
        )
        self.says(
            f"x counted from iteration {n(0)}, or divided by c.",
            f"falls to {plain(bottom)} instead of min",
            f"A division by {n(0)} for w = {n(0)}.",
        )
