"""Chapter 6: backward passes by hand, central differences, accumulation."""

import inspect
import math

import torch
from torch import nn

from grader.solutions.reference import autograd as ag
from grader.solutions.reference import flop_counting as fc
from handout.site import wren
from tests.handout.page_figures import Figures, n, plain, power, scientific, short

F64, F32 = torch.float64, torch.float32
TORCH_VERSION = "2.0"  # "zero_grad's default is set_to_none=True", release notes of PyTorch 2.0
LINNAINMAA, RUMELHART = 1970, 1986  # the years of the thesis and of the paper in Nature
STEPS = [1e-1, 1e-3, 1e-6, 1e-10]


def rows(x: torch.Tensor) -> str:
    """A matrix such as `[[1, −2], [3, 4]]`, with each number as a figure."""
    return "[" + ", ".join("[" + ", ".join(map(plain, row)) + "]" for row in x.tolist()) + "]"


def cube(x):
    """x³ by repeated multiplication, so that rounding is the same on every machine."""
    return x * x * x


def measured(f, x, eps, dtype=F64):
    """The derivative of f at x, by the reference's central differences."""
    return ag.numerical_gradient(f, [torch.tensor(x, dtype=dtype)], eps)[0].item()


class Chapter(Figures):
    """Every figure of the page."""

    def __init__(self) -> None:
        super().__init__("06_autograd.md")
        self.graph()
        self.linear()
        self.by_hand()
        self.checking()
        self.accumulation()
        self.model()
        self.exercises()

    def graph(self) -> None:
        """The graph of a scalar loss, by autograd."""
        x, w = torch.tensor(2.0), torch.tensor(4.0, requires_grad=True)
        target = 5
        p = x * w
        e = p - target
        loss = e**2 / 2
        for node in (p, e, loss):
            node.retain_grad()
        loss.backward()
        assert loss.grad == 1
        for upstream, own, node in ((loss.grad, e, e), (e.grad, 1, p), (p.grad, x, w)):
            assert node.grad == upstream * own
        shown = {name: plain(node.grad.item()) for name, node in (("e", e), ("p", p), ("w", w))}
        self.gives(
            graph_x=plain(x.item()),
            graph_w=plain(w.item()),
            graph_target=target,
            graph_p=plain(p.item()),
            graph_e=plain(e.item()),
            graph_value=plain(loss.item()),
            graph_e_grad=f"{plain(loss.grad.item())} · {plain(e.item())} = {shown['e']}",
            graph_p_grad=f"{shown['e']} · {n(1)} = {shown['p']}",
            graph_w_grad=f"{shown['p']} · {plain(x.item())} = {shown['w']}",
        )
        self.formula("graph_loss", "½ (x · w − 5)²", loss == 0.5 * (x * w - target) ** 2)
        self.formula("graph_square", "e² / 2", loss == e * e / 2)
        before = w.grad.item()
        (torch.ones(3) * w).backward(torch.ones(3))
        added = w.grad.item() - before
        self.gives(
            graph_accumulated=f"{plain(before)} + {plain(added)} = {plain(w.grad.item())}",
            torch_version=n(TORCH_VERSION),
        )
        default = inspect.signature(torch.optim.Optimizer.zero_grad).parameters["set_to_none"]
        assert default.default is True
        self.gives(story_years=RUMELHART - LINNAINMAA)

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
        self.gives(product_factor=each)
        x = torch.tensor([-1e-300, 0.0, 1e-300], dtype=F64, requires_grad=True)
        (gradient,) = torch.autograd.grad(x.relu().sum(), x)
        assert gradient.tolist() == [0, 0, 1]
        self.gives(relu_edge=plain(x[1].item()), relu_edge_gradient=plain(gradient[1].item()))
        a = torch.ones(1, 3, 2, requires_grad=True)
        ag.MatMul.apply(a, torch.ones(4, 2, 5)).sum().backward()
        self.gives(stretched=len(a.grad))

    def by_hand(self) -> None:
        """The solved example of a backward pass."""
        x, w1, w2, g = (
            torch.tensor(m, dtype=F64)
            for m in ([[1, 2], [3, -1]], [[1, 1], [2, -1]], [[3, 4]], [[1], [10]])
        )
        hidden = x @ w1.T
        y = hidden.relu() @ w2.T
        grad_w1, grad_w2 = ag.mlp_backward(x, w1, w2, g)
        back, masked = g @ w2, (g @ w2) * (hidden > 0)
        assert hidden.min() == 0, "the same after the ReLU"
        terms = (g * hidden.relu()).T
        self.gives(
            x=rows(x),
            w1=f"W₁ = {rows(w1)}",
            w2=f"W₂ = {rows(w2)}",
            hidden=rows(hidden),
            y=rows(y),
            g=rows(g),
        )
        sums = ", ".join(" + ".join(map(plain, row)) for row in terms.tolist())
        self.gives(first_weight="W₁", second_weight="W₂", w2_sums=f"[[{sums}]] = {rows(grad_w2)}")
        assert torch.equal(masked.T @ x, grad_w1)
        assert hidden[0, 1] == 0, "the second unit, for the first vector"
        self.gives(towards_w1=f"G W₂ = {rows(back)}", masked=rows(masked), grad_w1=rows(grad_w1))

    def checking(self) -> None:
        """Central differences and their errors."""
        eps = 1e-2
        holds = []
        for x in (0.3, 1.0, 2.0):
            sine = measured(torch.sin, x, eps) - math.cos(x) + eps**2 / 6 * math.cos(x)
            holds += [
                abs(sine) < eps**4,
                abs(measured(cube, x, eps) - 3 * x**2 - eps**2 / 6 * 6) < 1e-12,
            ]
            holds.append(
                abs(
                    (math.sin(x + eps) - math.sin(x - eps)) / (2 * eps)
                    - measured(torch.sin, x, eps)
                )
                < 1e-12
            )
        self.formula(
            "central_difference",
            r"\frac{f(x + \varepsilon) - f(x - \varepsilon)}{2 \varepsilon} = f′(x) + "
            r"\frac{\varepsilon^2}{6} f‴(x) + \ldots",
            holds,
        )
        one_sided = [
            ((math.sin(x + 1e-6) - math.sin(x)) / 1e-6 - math.cos(x)) / (-math.sin(x) * 1e-6 / 2)
            for x in (0.5, 1.0)
        ]
        self.formula("one_sided_error", "ε f″/2", [abs(ratio - 1) < 1e-3 for ratio in one_sided])
        digits = round(math.log10(torch.finfo(F64).eps))
        assert (
            abs(measured(cube, 2.0, 1e-10) - 12)
            < 10**digits * cube(2.0) / 1e-10
            < 100 * abs(measured(cube, 2.0, 1e-10) - 12)
        )
        self.gives(magnified_rounding=power(10, digits))
        at = 2.0
        first, second, third = (math.perm(3, k) * at ** (3 - k) for k in (1, 2, 3))
        self.gives(
            cube=f"x{n('³')}",
            at=plain(at),
            first_derivative=plain(first),
            second_derivative=plain(second),
            third_derivative=plain(third),
        )
        for eps in STEPS:
            forward = (cube(at + eps) - cube(at)) / eps
            errors = [
                abs(got - first)
                for got in (forward, measured(cube, at, eps), measured(cube, at, eps, F32))
            ]
            self.gives(error_row=f"{scientific(eps, 0)} | {' | '.join(map(scientific, errors))}")
        assert measured(cube, at, STEPS[-1], F32) == 0
        assert torch.tensor(at + STEPS[-1], dtype=F32) == at
        _, large, middle, small = STEPS
        central = {eps: abs(measured(cube, at, eps) - first) for eps in STEPS}
        assert central[middle] == min(central.values())
        self.gives(
            bet_large=scientific(large, 0),
            bet_middle=scientific(middle, 0),
            bet_small=scientific(small, 0),
            bet_middle_error=scientific(central[middle]),
            bet_small_error=scientific(central[small]),
        )
        best = [scientific(torch.finfo(dtype).eps ** (1 / 3), 0) for dtype in (F64, F32)]
        self.gives(best_fp64=best[0], best_fp32=best[1])

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
        shares = [
            f"{plain(m)} · {n(len(chunk))}/{n(len(losses))}"
            for m, chunk in zip(means, chunks, strict=True)
        ]
        first, second, third = losses.flatten().tolist()
        self.gives(
            first_loss=plain(first),
            second_loss=plain(second),
            third_loss=plain(third),
            first_mean=plain(means[0]),
            second_mean=plain(means[1]),
            mean=f"{' + '.join(shares)} = {plain(mean)}",
            wrong_mean=plain(sum(means) / len(means)),
        )
        assert (1 / len(chunks)) / len(chunks[1]) == 2 * (1 / len(chunks)) / len(chunks[0])

    def model(self) -> None:
        """One micro-batch of Wren."""
        config, batch = wren.WREN, wren.MICRO_BATCH
        tokens = config.context_length
        forward = sum(fc.transformer_forward_flops(config, batch, tokens).values())
        self.gives(
            wren_forward=short(forward, 2, 13),
            wren_backward=short(2 * forward, 2, 13),
            wren_rows=n(batch * tokens, ","),
            wren_ffn=f"{n(config.d_model, ',')} × {n(config.d_ff, ',')}",
            wren_input_mb=n(batch * tokens * config.d_model * torch.bfloat16.itemsize / 1e6, ".1f"),
            wren_gradients_gb=n(wren.PARAMETERS * F32.itemsize / 1e9, ".2f"),
            wren_micro_batches=wren.SEQUENCES // wren.DEVICES // batch,
            wren_differences=short(2 * wren.PARAMETERS, 2),
        )
        assert wren.SEQUENCES % (wren.DEVICES * batch) == 0

    def exercises(self) -> None:
        """The answers."""
        x, w, g = (torch.ones(shape, dtype=F64) for shape in ((5, 3), (7, 3), (5, 7)))
        gradient, _ = ag.linear_backward(x, w, g)
        assert torch.equal(gradient, g @ w)
        self.gives(
            ex_x=n(str(tuple(x.shape))),
            ex_w=n(str(tuple(w.shape))),
            ex_g=n(str(tuple(g.shape))),
        )
        sizes = (4, 8), (8, 6)
        numbers = [math.prod(size) for size in sizes]
        total = n(sum(numbers))
        self.gives(ex_numbers=f"{' + '.join(map(n, numbers))} = {total}")

        at, eps = 3.0, 0.1
        above, below = at + eps, at - eps
        central = measured(lambda x: x * x, at, eps)
        assert abs(central - 2 * at) < 1e-12
        self.gives(
            ex_square=f"x{n('²')}",
            ex_at=plain(at),
            ex_eps=plain(eps),
            ex_difference=(
                f"({plain(above)}{n('²')} − {plain(below)}{n('²')}) / {plain(2 * eps)} = "
                f"{n(central, '.0f')}"
            ),
            ex_one_sided=plain((above**2 - at**2) / eps),
        )
