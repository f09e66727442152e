"""Chapter 8: what optimizers do and what they keep."""

import math
from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise

import torch

from grader.solutions.reference import optimizers as op
from grader.solutions.reference import precision
from grader.solutions.reference import resource_accounting as ra
from handout.site import wren
from handout.site.pictures import training
from tests.handout.page_figures import Figures, n

F64, F32, BF16 = torch.float64, torch.float32, torch.bfloat16
GRADIENTS = [0.3, -0.02, 0.0, 1.5, -0.7, 0.01]  # gradients for checking formulas
BETA1, BETA2 = 0.9, 0.999  # torch's defaults
GROWTH = BETA2 / BETA1  # of the gradients of AdamW's longest step
ROWS, COLUMNS = 3, 4  # of a small parameter
Make = Callable[[list[torch.Tensor]], torch.optim.Optimizer]


def descend(
    make: Make, gradient: Callable[[float], float], count: int, p: float = 1.0
) -> list[float]:
    """The parameter after each step, with a gradient that depends on the parameter."""
    parameter = torch.tensor([p], dtype=F64, requires_grad=True)
    optimizer = make([parameter])
    after = []
    for _ in range(count):
        parameter.grad = torch.tensor([gradient(parameter.item())], dtype=F64)
        optimizer.step()
        after.append(parameter.item())
    return after


def steps(make: Make, gradients: Sequence[float], p: float = 1.0) -> list[float]:
    """The parameter after each step of an optimizer, with one gradient per step."""
    left = iter(gradients)
    return descend(make, lambda _: next(left), len(gradients), p)


def later_steps(gradients: Sequence[float], before: float) -> list[float]:
    """AdamW's steps in units of lr, after very many steps with the gradient `before`."""

    def make(parameters: list[torch.Tensor]) -> torch.optim.Optimizer:
        # ε is tiny, so that steps are in units of lr.
        optimizer = op.AdamW(parameters, 1.0, eps=1e-30, weight_decay=0.0)
        mean = torch.tensor([before], dtype=F64)
        optimizer.state[parameters[0]] = {"step": 10**6, "m": mean, "v": mean**2}
        return optimizer

    return [a - b for a, b in pairwise([0.0, *steps(make, gradients, 0.0)])]


def same(got: Sequence[float], expected: Sequence[float]) -> list[bool]:
    """Whether two values are equal up to rounding."""
    return [
        math.isclose(a, b, rel_tol=1e-12, abs_tol=1e-15) for a, b in zip(got, expected, strict=True)
    ]


def simple(rule: Callable[[float, float], tuple[float, float]], p: float = 1.0) -> list[float]:
    """The parameter after each gradient, for a rule (state, g) -> (state, step)."""
    kept, after = 0.0, []
    for g in GRADIENTS:
        kept, step = rule(kept, g)
        p -= step
        after.append(p)
    return after


def adamw(
    gradients: Sequence[float], lr: float, beta1: float, beta2: float, eps: float, decay: float
) -> list[float]:
    """AdamW by the formula of the page, line by line."""
    p, m, v, after = 1.0, 0.0, 0.0, []
    for t, g in enumerate(gradients, 1):
        p = p - lr * decay * p
        m, v = beta1 * m + (1 - beta1) * g, beta2 * v + (1 - beta2) * g**2
        p = p - lr * (m / (1 - beta1**t)) / (math.sqrt(v / (1 - beta2**t)) + eps)
        after.append(p)
    return after


def kept_bytes(make: Make) -> int:
    """Bytes of state that an optimizer keeps for a small float32 parameter."""
    p = torch.zeros(ROWS, COLUMNS, requires_grad=True)
    p.grad = torch.ones_like(p)
    optimizer = make([p])
    optimizer.step()
    return op.optimizer_state_bytes(optimizer)


class Chapter(Figures):
    def beginning(self) -> None:
        self.gives(state_bytes=sum(d.itemsize for d in wren.RECIPE.optimizer_state))
        self.gives(adamw_bytes=ra.bytes_per_parameter(wren.RECIPE))

    def bowl(self) -> None:
        curvature = 3.0

        def slide(lr: float) -> list[float]:
            return descend(lambda p: op.SGD(p, lr), lambda x: curvature * x, 60)

        slope = torch.tensor([0.7], dtype=F64, requires_grad=True)
        (curvature * slope**2 / 2).sum().backward()
        self.formula("parabola", "½λx²", math.isclose(slope.grad.item(), curvature * 0.7))
        factors = [(1 - 0.1 * curvature) ** t for t in (1, 2, 3)]
        self.formula("parabola_factor", "1 − lr · λ", same(slide(0.1)[:3], factors))
        below, above = slide(1.98 / curvature), slide(2.02 / curvature)
        self.formula("parabola_limit", "2/λ", [abs(below[-1]) < 1, abs(above[-1]) > 1])

        slow, fast, mu = 0.4, 0.6, 0.5
        at = torch.tensor([1.5, -0.5], dtype=F64, requires_grad=True)
        (0.1 * at[0] ** 2 + 2 * at[1] ** 2).backward()
        across, along = (at.grad / at.detach()).tolist()
        value = training.bowl_value(1.5, -0.5)
        expected = across / 2 * 1.5**2 + along / 2 * 0.5**2
        self.formula("bowl", "0.1x² + 2y²", math.isclose(value, expected))
        factors = {}
        for lr in (slow, fast):
            (x0, y0), (x1, y1), *_ = training.bowl_path(lr, 0.0)
            factors[lr] = (x1 / x0, y1 / y0)
        self.gives(bowl_across=f"{n(1)} − {n(across, 'g')} lr")
        self.gives(bowl_along=f"{n(1)} − {n(along, 'g')} lr", slow_lr=slow, fast_lr=fast)
        self.gives(bowl_mu=mu, slow_factors=factors[slow], fast_factors=factors[fast])
        converges = []
        for factor in (0.98, 1.02):
            make = partial(op.SGD, lr=factor * (2 + 2 * mu) / along, momentum=mu)
            path = descend(make, lambda y: along * y, 2000)
            converges.append((abs(path[-1]) < 1e-3) == (factor < 1))
        self.formula("momentum_limit", "2 + 2μ", converges)
        path = descend(partial(op.SGD, lr=fast, momentum=mu), lambda y: along * y, 20, p=-2.0)
        assert all(same([y for _, y in training.bowl_path(fast, mu)[1:]], path))
        self.gives(below_limit=(fast, along, fast * along, 2 + 2 * mu))
        start, *_, end = training.bowl_path(slow, 0.0)
        self.gives(bowl_steps=training.BOWL_STEPS, bowl_start=start, slow_end=end)
        self.gives(fast_end=training.bowl_path(fast, 0)[-1])
        self.gives(momentum_end=training.bowl_path(fast, mu)[-1])

    def three(self) -> None:
        lr, mu, alpha, eps = 0.1, 0.6, 0.7, 0.05
        sgd = steps(lambda p: op.SGD(p, lr, mu), GRADIENTS)
        adagrad = steps(lambda p: op.AdaGrad(p, lr, eps), GRADIENTS)
        rmsprop = steps(lambda p: op.RMSProp(p, lr, alpha, eps), GRADIENTS)
        self.formula(
            "adagrad_formula",
            r"s \leftarrow s + g^2 & p \leftarrow p - \text{lr} \cdot g / (\sqrt{s} + \varepsilon)",
            same(adagrad, simple(lambda s, g: (s + g**2, lr * g / (math.sqrt(s + g**2) + eps)))),
        )

        def mean_square(v: float, g: float, kept: float = alpha) -> tuple[float, float]:
            v = kept * v + (1 - kept) * g**2
            return v, lr * g / (math.sqrt(v) + eps)

        formula = r"v \leftarrow \alpha v + (1 - \alpha) g^2"
        self.formula("rmsprop_formula", formula, same(rmsprop, simple(mean_square)))
        swapped = steps(lambda p: op.RMSProp(p, lr, 1 - alpha, eps), GRADIENTS)
        exchanged = simple(partial(mean_square, kept=1 - alpha))
        self.formula("other_alpha", "1 − α", same(swapped, exchanged))
        rates = (0.5, 0.9, 0.99)
        holds = same([sum(m**k for k in range(5000)) for m in rates], [1 / (1 - m) for m in rates])
        self.formula("momentum_sum", "g · (1 + μ + μ² + …) = g / (1 − μ)", holds)
        *_, before, last = [0.0, *steps(lambda p: op.SGD(p, 1.0, 0.9), [1.0] * 500)]
        assert round(before - last, 9) == 10, "ten times as long"
        self.gives(mu=0.9)
        other = simple(lambda b, g: (mu * b + (1 - mu) * g, lr * (mu * b + (1 - mu) * g)))
        # the step is (1 − μ) times as long
        shorter = same([1 - x for x in other], [(1 - mu) * (1 - x) for x in sgd])
        self.formula("other_momentum", "(1 − μ) g", shorter)

        ones = [1.0, *steps(lambda p: op.AdaGrad(p, 1.0, 0.0), [0.3] * 50)]
        moved = [a - b for a, b in pairwise(ones)]
        self.formula("shrinking", "1/√t", same(moved, [1 / math.sqrt(t) for t in range(1, 51)]))
        a = 0.99
        memory = sum(a**k for k in range(5000))
        self.formula("steps_remembered", "1 / (1 − α)", math.isclose(memory, 1 / (1 - a)))
        self.gives(remembered=memory, alpha=a)
        ((first),) = steps(lambda p: op.RMSProp(p, 1.0, a, 0.0), [0.3])
        root = math.isclose(1 - first, 0.3 / (math.sqrt(1 - a) * 0.3))
        self.formula("first_root", "√v = √(1 − α) |g|", root)
        self.gives(first_step=1 - first)

    def state(self) -> None:
        elements, parameters = 12, 7 * 10**9
        momentum = partial(op.SGD, momentum=0.9)
        kinds: list[list[Make]] = [[op.SGD], [momentum, op.AdaGrad, op.RMSProp]]
        kinds += [[torch.optim.Adam, op.AdamW], [torch.optim.Muon]]
        self.gives(parameters=parameters)
        for makes in kinds:
            (kept,) = {kept_bytes(make) for make in makes}
            self.gives(state_row=(kept // elements, parameters * kept // elements // 10**9))
        # Dettmers et al. (2022), section 2: blocks of 2,048 numbers, each with a float32 scale.
        block = 2048
        levels = torch.linspace(-1, 1, 2**8)
        codes, scales = precision.quantize_blocks(torch.ones(4 * block), block, levels)
        per_number = 2 * sum(x.numel() * x.element_size() for x in (codes, scales)) / (4 * block)
        self.gives(state_row=(per_number, parameters * per_number / 1e9))
        self.gives(code_bits=8 * codes.element_size(), code_block=block)
        self.factored(parameters)
        shown = torch.optim.SGD, torch.optim.RMSprop, torch.optim.AdamW
        sgd, rmsprop, adamw = map(kept_bytes, shown)
        self.gives(shown_shape=(ROWS, COLUMNS), sgd_bytes=sgd, rmsprop_bytes=rmsprop)
        self.gives(adamw_kept=adamw)

    def factored(self, parameters: int) -> None:
        rows, columns = wren.WREN.d_model, wren.WREN.d_ff
        assert kept_bytes(torch.optim.Adafactor) == (ROWS + COLUMNS) * F32.itemsize
        factored = (rows + columns) * F32.itemsize
        both = kept_bytes(op.AdamW) // (ROWS * COLUMNS) * rows * columns
        share = factored / (rows * columns)
        self.gives(state_row=(share, parameters * share / 1e9), factored_shape=(rows, columns))
        self.gives(factored_bytes=(rows, columns, F32.itemsize, factored), unfactored_mb=both / 1e6)

    def worked_three(self) -> None:
        p, lr = 1.0, 0.1
        self.gives(p=p, lr=lr)
        mu, g = 0.5, 2.0
        first, second = steps(lambda x: op.SGD(x, lr, mu), [g, g], p)
        b1, b2 = (p - first) / lr, (first - second) / lr
        self.gives(sgd_mu=mu, g=g, sgd_b=b1, sgd_b_next=(mu, b1, g, b2), sgd_p=first)
        self.gives(sgd_p_next=second)
        eps, g1, g2 = 1.0, 3.0, 4.0
        first, second = steps(lambda x: op.AdaGrad(x, lr, eps), [g1, g2], p)
        self.gives(eps_one=eps, g_first=g1, g_second=g2, s_first=g1**2, s_second=g1**2 + g2**2)
        self.gives(adagrad_p=(p, lr * g1, math.sqrt(g1**2) + eps, first))
        self.gives(adagrad_p_next=(first, lr * g2, math.hypot(g1, g2) + eps, second))
        alpha, g = 0.75, 2.0
        (first,) = steps(lambda x: op.RMSProp(x, lr, alpha, eps), [g], p)
        v = (1 - alpha) * g**2
        self.gives(rms_alpha=alpha, rms_v=(1 - alpha, g**2, v))
        self.gives(rms_p=(p, lr * g, math.sqrt(v) + eps, first))
        mu = op.SGD([torch.zeros(1)]).defaults["momentum"]
        self.gives(no_momentum=mu, every_itemsize=F32.itemsize)

    def adamw(self) -> None:
        options = {"lr": 0.1, "betas": (0.8, 0.95), "eps": 0.02, "weight_decay": 0.3}
        got = steps(lambda p: op.AdamW(p, **options), GRADIENTS)
        self.formula(
            "adamw_formula",
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
        means, squares = [], []
        for t in range(1, 20):
            m, v = BETA1 * m + (1 - BETA1) * g, BETA2 * v + (1 - BETA2) * g**2
            means += same([m], [(1 - BETA1**t) * g])
            squares += same([v], [(1 - BETA2**t) * g**2])
        self.formula("constant_m", "(1 − β₁ᵗ) g", means)
        self.formula("constant_v", "(1 − β₂ᵗ) g²", squares)
        uncorrected = (1 - BETA1) / math.sqrt(1 - BETA2)
        assert op.AdamW([torch.zeros(1)]).defaults["betas"] == (BETA1, BETA2)
        self.gives(beta1=f"β₁ = {n(BETA1)}", beta2=f"β₂ = {n(BETA2)}", m_factor=1 - BETA1)
        self.gives(v_factor=1 - BETA2, uncorrected=(1 - BETA1, 1 - BETA2, uncorrected))
        (moved,) = later_steps([1e-3], before=0.0)
        assert math.isclose(moved, uncorrected)
        silence = n(moved, ".2f")
        self.gives(silence=silence, silence_step=f"({n(1)} − β₁) / √({n(1)} − β₂) = {silence}")
        self.gives(bound_section=2.1)
        p, g, lr, decay = 1.0, 10.0, 0.1, 0.5
        adam = partial(torch.optim.Adam, lr=lr)
        with_l2, without = (steps(partial(adam, weight_decay=d), [g], p)[0] for d in (decay, 0.0))
        assert math.isclose(with_l2, without), "the L2 term has no effect"
        self.gives(p=p, large_gradient=g, l2_adds=decay * p)
        fresh = torch.zeros(1, requires_grad=True)
        optimizer = op.AdamW([fresh])
        fresh.grad = torch.ones(1)
        optimizer.step()
        self.gives(first_t=int(optimizer.state[fresh]["step"]))

        g, eps = 0.01, 0.01
        first, second = steps(lambda x: op.AdamW(x, lr, eps=eps, weight_decay=decay), [g, g], p)
        decayed = p - lr * decay * p
        moved = lr * g / (g + eps)
        self.gives(worked_g=g, lr=lr, worked_eps=eps, decay=decay)
        self.gives(decayed=(p, lr, decay, p, decayed), moved=(lr, g, g + eps, moved))
        self.gives(after_one=first, after_two=(first, 1 - lr * decay, moved, second))

    def eps(self) -> None:
        lr = 0.1
        cases = [(1.0, 1e-8), (0.01, 0.01)]
        # √v̂ + ε as here; √(v̂ + ε); √v + ε, and the corrections outside the quotient
        here, inside, before = [], [], []
        for g, eps in cases:
            m, v = (1 - BETA1) * g, (1 - BETA2) * g**2
            here.append(1 - steps(partial(op.AdamW, lr=lr, eps=eps, weight_decay=0.0), [g])[0])
            inside.append(lr * g / math.sqrt(g**2 + eps))
            before.append(lr * math.sqrt(1 - BETA2) / (1 - BETA1) * m / (math.sqrt(v) + eps))
        self.gives(lr=lr, usual_g=cases[0][0], usual_eps=cases[0][1], small_g=cases[1][0])
        self.gives(large_eps=cases[1][1])
        for moved in (here, inside, before):
            self.gives(eps_row=moved)
        norm, parameters, eps = 1, 10**9, 1e-8
        entry = norm / math.sqrt(parameters)
        inside = entry / math.sqrt(entry**2 + eps)
        (after,) = steps(lambda p: op.AdamW(p, 1.0, eps=eps, weight_decay=0.0), [entry])
        self.gives(norm=norm, norm_parameters=parameters, entry=entry, entry_square=entry**2)
        self.gives(usual_eps=eps, inside_moves=inside, here_moves=1 - after)

    def adamw_costs(self) -> None:
        parts = [F32, F32, *wren.RECIPE.optimizer_state]
        total = ra.bytes_per_parameter(wren.RECIPE)
        memory = 80 * 10**9
        most = ra.max_parameters(memory, wren.RECIPE)
        moved = (4 + 3) * F32.itemsize
        # The number of operations in the formula, with a fused multiply-add counted as two.
        flops = 15
        assert not ra.is_compute_bound(flops, moved, ra.H100_SXM, F32)
        self.gives(adamw_parts=([d.itemsize for d in parts], total), device_gb=memory // 10**9)
        self.gives(most_parameters=most, parameters=7e9, adamw_gb=7 * total)
        milliseconds = 1000 * ra.roofline_seconds(flops * most, moved * most, ra.H100_SXM, F32)
        self.gives(adamw_moved=moved, adamw_ms=milliseconds)
        for name, gradient in (("mixed_parts", BF16), ("summed_parts", F32)):
            recipe = ra.TrainingRecipe(BF16, gradient, (F32, F32), master=F32)
            sizes = [BF16.itemsize, gradient.itemsize, 2 * F32.itemsize, F32.itemsize]
            assert sum(sizes) == ra.bytes_per_parameter(recipe)
            self.gives(**{name: (sizes, sum(sizes))})
        self.gives(both_bytes=ra.bytes_per_parameter(recipe) + BF16.itemsize)

    def model(self) -> None:
        state, moved = 2 * F32.itemsize * wren.PARAMETERS, wren.OPTIMIZER_STEP_BYTES
        bandwidth = ra.H100_SXM.memory_bandwidth
        assert moved / bandwidth < 0.01 * wren.STEP_SECONDS
        self.gives(wren_state_gb=state / 1e9, wren_moved_gb=moved / 1e9)
        self.gives(wren_step_ms=1e3 * moved / bandwidth, wren_step_s=wren.STEP_SECONDS)
        # GPT-3's options: Brown et al. 2020, appendix B.
        beta1, beta2, decay, clip = 0.9, 0.95, 0.1, 1.0
        sums = [sum(beta**k for k in range(50_000)) for beta in (beta2, BETA2)]
        self.formula("v_remembers", "1 / (1 − β₂)", same(sums, [1 / (1 - beta2), 1 / (1 - BETA2)]))
        betas = f"β₁ = {n(beta1)}, β₂ = {n(beta2)}"
        self.gives(wren_options=f"{betas}, ε = {n('1e-8')}, λ = {n(decay)}")
        self.gives(wren_clip=clip, wren_beta=f"β₂ = {n(beta2)}", wren_remembers=sums[0])
        self.gives(usual_remembers=sums[1], usual_beta=BETA2)

    def exercises(self) -> None:
        many = 10_000
        self.gives(ex_steps=many)
        lr, decay = 3e-4, 0.1
        left = steps(lambda p: op.AdamW(p, lr=lr, weight_decay=decay), [0.0] * many)[-1]
        self.gives(ex_lr=lr, ex_decay=decay, ex_factor=(1, lr, decay), ex_left=left)

    def longest_step(self) -> None:
        """The gradients that make AdamW's longest step, by the Cauchy-Schwarz inequality."""
        *_, longest = later_steps([1e-20 * GROWTH**k for k in range(400)], before=0.0)
        mean = (1 - BETA1) / (1 - BETA1**2 / BETA2)
        square = (1 - BETA2) / (1 - BETA1**2 / BETA2)
        assert math.isclose(longest, mean / math.sqrt(square), rel_tol=1e-4)
        weights = [((1 - BETA1) * BETA1**k, (1 - BETA2) * BETA2**k) for k in range(5000)]
        bound = math.sqrt(sum(m**2 / v for m, v in weights))
        assert math.isclose(bound, mean / math.sqrt(square))
        self.gives(ex_growth=f"β₂ / β₁ = {n(GROWTH, '.2f')}", ex_m=mean, ex_root=math.sqrt(square))
        self.gives(ex_longest=longest)
