"""Chapter 6: backward passes by hand, central differences, accumulation."""

import inspect
import math

import torch
from torch import nn

from grader.solutions.reference import autograd as ag
from grader.solutions.reference import flop_counting as fc
from handout.site import wren
from tests.handout.page_figures import Figures, n

F64, F32 = torch.float64, torch.float32
STEPS = [1e-1, 1e-3, 1e-6, 1e-10]


def rows(x: torch.Tensor) -> str:
    """A matrix such as `[[1, −2], [3, 4]]`, with each number as a figure."""
    return "[" + ", ".join(f"[{', '.join(n(v, 'g') for v in row)}]" for row in x.tolist()) + "]"


def cube(x):
    """x³ by repeated multiplication, so that rounding is the same on every machine."""
    return x * x * x


def measured(f, x, eps, dtype=F64):
    """The derivative of f at x, by the reference's central differences."""
    return ag.numerical_gradient(f, [torch.tensor(x, dtype=dtype)], eps)[0].item()


class Chapter(Figures):
    def graph(self) -> None:
        x, w = torch.tensor(2.0), torch.tensor(4.0, requires_grad=True)
        target = 5
        p = x * w
        e = p - target
        loss = e**2 / 2
        for node in (p, e, loss):
            node.retain_grad()
        loss.backward()
        self.gives(graph_x=x.item(), graph_w=w.item(), graph_target=target, graph_p=p.item())
        self.gives(graph_e=e.item(), graph_value=loss.item())
        self.gives(graph_e_grad=(loss.grad, e, e.grad), graph_p_grad=(e.grad, 1, p.grad))
        self.gives(graph_w_grad=(p.grad, x, w.grad))
        self.formula("graph_loss", "½ (x · w − 5)²", loss == 0.5 * (x * w - target) ** 2)
        self.formula("graph_square", "e² / 2", loss == e * e / 2)
        before = w.grad.item()
        (torch.ones(3) * w).backward(torch.ones(3))
        after = w.grad.item()
        self.gives(graph_accumulated=(before, after - before, after), torch_version=n("2.0"))
        # Release notes of PyTorch 2.0: "zero_grad's default is set_to_none=True".
        default = inspect.signature(torch.optim.Optimizer.zero_grad).parameters["set_to_none"]
        assert default.default is True
        self.gives(story_years=1986 - 1970)  # Rumelhart's paper in Nature, Linnainmaa's thesis

    def linear(self) -> None:
        t, i, o = 5, 3, 7
        forward = fc.linear_flops(t, i, o)
        weight = fc.linear_flops(t, i, o, backward=True, input_grad=False) - forward
        self.gives(product_factor=weight // (t * i * o))
        x = torch.tensor([-1e-300, 0.0, 1e-300], dtype=F64, requires_grad=True)
        (gradient,) = torch.autograd.grad(x.relu().sum(), x)
        assert gradient.tolist() == [0, 0, 1]
        self.gives(relu_edge=x[1].item(), relu_edge_gradient=gradient[1].item())
        a = torch.ones(1, 3, 2, requires_grad=True)
        ag.MatMul.apply(a, torch.ones(4, 2, 5)).sum().backward()
        self.gives(stretched=len(a.grad))

    def by_hand(self) -> None:
        matrices = [[1, 2], [3, -1]], [[1, 1], [2, -1]], [[3, 4]], [[1], [10]]
        x, w1, w2, g = (torch.tensor(matrix, dtype=F64) for matrix in matrices)
        hidden = x @ w1.T
        y = hidden.relu() @ w2.T
        grad_w1, grad_w2 = ag.mlp_backward(x, w1, w2, g)
        back, masked = g @ w2, (g @ w2) * (hidden > 0)
        terms = (g * hidden.relu()).T
        self.gives(x=x, w1=f"W₁ = {rows(w1)}", w2=f"W₂ = {rows(w2)}", hidden=hidden, y=y, g=g)
        self.gives(first_weight="W₁", second_weight="W₂", w2_sums=(terms, grad_w2))
        self.gives(towards_w1=f"G W₂ = {rows(back)}", masked=masked, grad_w1=grad_w1)

    def checking(self) -> None:
        eps, x = 1e-2, 0.3
        sine, by_hand = measured(torch.sin, x, eps), math.sin(x + eps) - math.sin(x - eps)
        holds = [abs(sine - math.cos(x) + eps**2 / 6 * math.cos(x)) < eps**4]
        holds.append(abs(by_hand / (2 * eps) - sine) < 1e-12)
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
        error = abs(measured(cube, 2.0, 1e-10) - 12)
        assert error < 10**digits * cube(2.0) / 1e-10 < 100 * error
        self.gives(magnified_rounding=10.0**digits)
        at = 2.0
        first, second, third = (math.perm(3, k) * at ** (3 - k) for k in (1, 2, 3))
        self.gives(cube=f"x{n('³')}", at=at, first_derivative=first, second_derivative=second)
        self.gives(third_derivative=third)
        for eps in STEPS:
            forward = (cube(at + eps) - cube(at)) / eps
            found = forward, measured(cube, at, eps), measured(cube, at, eps, F32)
            self.gives(error_row=(eps, [abs(got - first) for got in found]))
        assert measured(cube, at, STEPS[-1], F32) == 0
        assert torch.tensor(at + STEPS[-1], dtype=F32) == at
        _, large, middle, small = STEPS
        central = {eps: abs(measured(cube, at, eps) - first) for eps in STEPS}
        assert central[middle] == min(central.values())
        self.gives(bet_large=large, bet_middle=middle, bet_small=small)
        self.gives(bet_middle_error=central[middle], bet_small_error=central[small])
        best = [torch.finfo(dtype).eps ** (1 / 3) for dtype in (F64, F32)]
        self.gives(best_fp64=best[0], best_fp32=best[1])

    def accumulation(self) -> None:
        losses = torch.tensor([[1.0], [2.0], [6.0]], dtype=F64)
        model = nn.Linear(1, 1, bias=False, dtype=F64)
        nn.init.ones_(model.weight)
        mean = ag.accumulate_gradients(model, lambda output, _: output.mean(), losses, losses, 2)
        chunks = losses.split(2)
        means = [chunk.mean().item() for chunk in chunks]
        shares = [(m, len(c), len(losses)) for m, c in zip(means, chunks, strict=True)]
        first, second, third = losses.flatten().tolist()
        self.gives(first_loss=first, second_loss=second, third_loss=third, first_mean=means[0])
        self.gives(second_mean=means[1], mean=(shares, mean), wrong_mean=sum(means) / len(means))

    def model(self) -> None:
        config, batch = wren.WREN, wren.MICRO_BATCH
        tokens = config.context_length
        forward = sum(fc.transformer_forward_flops(config, batch, tokens).values())
        self.gives(wren_forward=forward, wren_backward=2 * forward, wren_rows=batch * tokens)
        self.gives(wren_ffn=(config.d_model, config.d_ff))
        self.gives(wren_input_mb=batch * tokens * config.d_model * torch.bfloat16.itemsize / 1e6)
        self.gives(wren_gradients_gb=wren.PARAMETERS * F32.itemsize / 1e9)
        self.gives(wren_micro_batches=wren.SEQUENCES // wren.DEVICES // batch)
        self.gives(wren_differences=2 * wren.PARAMETERS)

    def exercises(self) -> None:
        sizes = (4, 8), (8, 6)
        numbers = [math.prod(size) for size in sizes]
        self.gives(ex_numbers=(numbers, sum(numbers)))

        at, eps = 3.0, 0.1
        above, below = at + eps, at - eps
        central = measured(lambda x: x * x, at, eps)
        self.gives(ex_square=f"x{n('²')}", ex_at=at, ex_eps=eps)
        self.gives(ex_difference=(above**2, below**2, 2 * eps, central))
        self.gives(ex_one_sided=(above**2 - at**2) / eps)
