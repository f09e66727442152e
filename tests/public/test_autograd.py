"""autograd: backward passes by hand, numerical gradients, and uses of autograd. Handout §6.1."""

import pytest
import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from kit import expect


def test_linear_backward_of_the_example(student):
    """[[1, 10]] @ [[3, 4], [5, 6]] = [[53, 64]] and [[1], [10]] @ [[1, 2]] = [[1, 2], [10, 20]]."""
    numbers = [[1.0, 2.0]], [[3.0, 4.0], [5.0, 6.0]], [[1.0, 10.0]]
    x, weight, upstream = (torch.tensor(x) for x in numbers)
    inputs = "x [[1, 2]], weight [[3, 4], [5, 6]], grad_output [[1, 10]]"
    grad_x, grad_weight = student.autograd.linear_backward(x, weight, upstream)
    want, of = torch.tensor([[53.0, 64.0]]), "linear_backward"
    hints = [(torch.tensor([[8.0, 10.0]]), "G is [[1, 10]], and not ones")]
    expect.tensor(grad_x, want, of=of, inputs=inputs, name="the gradient of x", hints=hints)
    want = torch.tensor([[1.0, 2.0], [10.0, 20.0]])
    hints = [(want.T, "the gradient of weight has weight's shape: Gᵀ x, and not xᵀ G")]
    name = "the gradient of weight"
    expect.tensor(grad_weight, want, of=of, inputs=inputs, name=name, hints=hints)
    unasked, _ = student.autograd.linear_backward(x, weight, upstream, need_input_grad=False)
    reason = "a gradient of x although need_input_grad is False"
    hint = "then return None for it, and do not compute it"
    expect.that(unasked is None, reason, of="linear_backward", hint=hint)


def test_mlp_backward_of_the_example(student):
    """Hidden units relu(2) = 2 and relu(-3) = 0: w2 gets [[20, 0]] and w1 gets [[50], [0]]."""
    numbers = [[1.0]], [[2.0], [-3.0]], [[5.0, 7.0]], [[10.0]]
    x, w1, w2, upstream = (torch.tensor(x) for x in numbers)
    inputs = "x [[1]], w1 [[2], [-3]], w2 [[5, 7]], grad_output [[10]]"
    grad_w1, grad_w2 = student.autograd.mlp_backward(x, w1, w2, upstream)
    hints = [
        (torch.tensor([[2.0, 0.0]]), "G is [[10]], and not ones"),
        (torch.tensor([[20.0, -30.0]]), "the layer's input is relu(h), and not h"),
    ]
    more, want = {"inputs": inputs, "name": "the gradient of w2"}, torch.tensor([[20.0, 0.0]])
    expect.tensor(grad_w2, want, of="mlp_backward", hints=hints, **more)
    relu = "relu lets a gradient through where its input is above 0, and nowhere else"
    hints = [(torch.tensor([[50.0], [70.0]]), relu)]
    more, want = {"inputs": inputs, "name": "the gradient of w1"}, torch.tensor([[50.0], [0.0]])
    expect.tensor(grad_w1, want, of="mlp_backward", hints=hints, **more)


TRANSPOSED = "G bᵀ and aᵀ G, where .mT swaps the last two dimensions; .T reverses all"


def test_matmul_of_the_example(student):
    """The gradients of [[1, 2]] @ [[3], [4]] for G = [[10]] are [[30, 40]] and [[10], [20]].

    If b is used twice, its gradient is twice that.
    """
    a, b = torch.tensor([[1.0, 2.0]]), torch.tensor([[3.0], [4.0]])
    for a, grad_a, grad_b in [  # noqa: B020  two copies of a share one b
        (a, torch.tensor([[30.0, 40.0]]), torch.tensor([[10.0], [20.0]])),
        (a.repeat(2, 1, 1), torch.tensor([[[30.0, 40.0]]] * 2), torch.tensor([[20.0], [40.0]])),
    ]:
        inputs = f"a {expect.describe(a)}, b [[3], [4]], gradient 10"
        leaves = a.clone().requires_grad_(), b.clone().requires_grad_()
        product = student.autograd.MatMul.apply(*leaves)
        expect.tensor(product.detach(), a @ b, of="MatMul.forward", inputs=inputs)
        with expect.suspecting(TRANSPOSED):
            product.backward(torch.full_like(product, 10))
        for name, leaf, want in zip("ab", leaves, (grad_a, grad_b), strict=True):
            hints = [(want / 10, "the gradient that arrives is 10, and not 1")]
            if a.ndim > 2 and name == "b":
                hints = [(want / 2, "both matrices use b: their gradients are added up")]
            more = {"inputs": inputs, "name": f"the gradient of {name}", "hints": hints}
            expect.tensor(leaf.grad, want, of="MatMul.backward", **more)


def test_numerical_gradient_of_the_example(student):
    """x³ at 2 with eps 0.5: (2.5³ - 1.5³) / 1 = 12.25. The input is unchanged."""
    x = torch.tensor(2.0, dtype=torch.float64)
    inputs = "f x³, x 2, eps 0.5"
    got = student.autograd.numerical_gradient(lambda x: x**3, [x], eps=0.5)
    expect.kind(got, (tuple, list), of="numerical_gradient", name="the gradients")
    name = "the number of gradients"
    expect.value(len(got), 1, of="numerical_gradient", name=name, inputs=inputs)
    hints = {
        24.5: "the two points are 2ε apart",
        15.25: "central: one point on each side of x",
        9.25: "central: one point on each side of x",
        12.0: "this is the derivative itself: ε is 0.5, and two points decide",
    }
    more = {"inputs": inputs, "atol": 1e-12, "hints": hints}
    expect.tensor(got[0], torch.tensor(12.25, dtype=torch.float64), of="numerical_gradient", **more)
    name = "x after the call"
    expect.tensor(x, torch.tensor(2.0, dtype=torch.float64), of="numerical_gradient", name=name)


def test_intermediate_gradients_of_the_example(student):
    """In Sequential(Linear, ReLU), the Linear's output gets 1 where it is above 0 and 0 elsewhere.

    No hook and no .grad is left.
    """
    module = nn.Sequential(nn.Linear(2, 2, bias=False), nn.ReLU())
    module.load_state_dict({"0.weight": torch.tensor([[1.0, 1.0], [1.0, -1.0]])})
    x = torch.tensor([[1.0, 2.0], [2.0, 1.0]])
    got = student.autograd.intermediate_gradients(module, x, ["0", "1"])
    inputs = "outputs of 0 are [[3, -1], [3, 1]]"
    expect.kind(got, dict, of="intermediate_gradients", name="the gradients")
    name = "the names"
    expect.value(sorted(got), ["0", "1"], of="intermediate_gradients", name=name, inputs=inputs)
    want = torch.tensor([[1.0, 0.0], [1.0, 1.0]])
    hints = [
        (want / 4, "the gradient of the output's sum, and not of its mean"),
        (torch.zeros(2, 2), "does the graph go on from this output to the next one?"),
        (torch.ones(2, 2), "the gradient of the Linear's output, which is ReLU's input"),
    ]
    more = {"inputs": inputs, "name": "0", "hints": hints}
    expect.tensor(got["0"], want, of="intermediate_gradients", **more)
    expect.tensor(got["1"], torch.ones(2, 2), of="intermediate_gradients", inputs=inputs, name="1")
    hooks = sum(len(m._forward_hooks) + len(m._backward_hooks) for m in module.modules())
    of = "intermediate_gradients"
    expect.value(hooks, 0, of=of, name="the number of hooks left", hint="is each hook removed?")
    grad, hint = module[0].weight.grad, "torch.autograd.grad leaves .grad alone"
    expect.that(grad is None, "the weight has a .grad afterwards", of=of, hint=hint)


def test_accumulate_gradients_of_the_example(student):
    """Losses 1, 2 and 6 in chunks of two: 1.5 · 2/3 + 6 · 1/3 = 3, not 3.75.

    The gradients have the same weights, and are added to the existing .grad.
    """
    model = nn.Linear(1, 1, bias=False)
    nn.init.ones_(model.weight)
    model.weight.grad = torch.full((1, 1), 100.0)
    x = torch.tensor([[1.0], [2.0], [6.0]])
    inputs = "losses [1, 2, 6], micro_batch_size 2"
    loss_fn, y = lambda out, y: (out - y).mean(), torch.zeros_like(x)
    loss = student.autograd.accumulate_gradients(model, loss_fn, x, y, 2)
    weight = "the weight of a chunk is its number of rows: the last one has 1 of 3"
    hints = {
        3.75: weight,
        5.0: weight,
        6.0: "this is the loss of the last chunk",
        7.5: "the losses of the chunks have weights: they are not just added",
        9.0: "the mean over all rows, and not their sum",
        1.0: "the last chunk, though short, counts",
        1.5: "the last chunk, though short, counts",
    }
    more = {"inputs": inputs, "hints": hints}
    expect.number(loss, 3.0, of="accumulate_gradients", tolerance=1e-6, **more)
    before = "the gradient is added to what .grad holds, and that stays"
    hints = {103.75: weight, 105.0: weight, 107.5: weight, 3.0: before, 109 / 3: before}
    hints |= {2.0: "each chunk adds to .grad"}
    more = {"inputs": inputs, "hints": hints, "name": ".grad, 100 before"}
    want = torch.full((1, 1), 103.0)
    expect.tensor(model.weight.grad, want, of="accumulate_gradients", atol=1e-4, **more)


def few(*shape, seed=0):
    """Whole numbers from -3 to 3: float32 holds their products and sums exactly."""
    source = torch.Generator().manual_seed(seed)
    return torch.randint(-3, 4, shape, generator=source).float()


def check_pair(got, want, names, **more):
    """Check a pair of gradients."""
    expect.kind(got, (tuple, list), name="the gradients", of=more["of"])
    expect.value(len(got), 2, of=more["of"], name="the number of gradients")
    for name, mine, theirs in zip(names, got, want, strict=True):
        expect.tensor(mine, theirs, name=f"the gradient of {name}", **more)


@pytest.mark.parametrize("shape", [(3,), (4, 3), (2, 4, 3), (2, 2, 2, 3)])
def test_linear_backward_agrees_with_autograd(student, shape):
    """Any leading dimensions, transposed inputs and parameters work; no argument changes."""
    x, weight, upstream = few(*shape), few(5, 3, seed=1), few(*shape[:-1], 5, seed=2)
    leaves = x.clone().requires_grad_(), weight.clone().requires_grad_()
    want = torch.autograd.grad(nn.functional.linear(*leaves), leaves, upstream)
    turned = [t.movedim(0, -1).contiguous().movedim(-1, 0) for t in (x, upstream)]
    of, inputs = "linear_backward", f"x {list(shape)}"
    with expect.suspecting("Gᵀ x is a product of matrices: flatten the leading dimensions of both"):
        got = student.autograd.linear_backward(turned[0], nn.Parameter(weight), turned[1])
    check_pair([g.detach() for g in got], want, ("x", "weight"), of=of, inputs=inputs)
    for name, now, was in zip(("x", "grad_output"), turned, (x, upstream), strict=True):
        expect.tensor(now, was, of=of, name=f"{name} after the call")


def test_linear_backward_computes_only_what_is_needed(student):
    """Without the gradient of x, only one product of 2 · 4 · 3 · 5 FLOPs runs."""
    with FlopCounterMode(display=False) as counter:
        student.autograd.linear_backward(few(4, 3), few(5, 3), few(4, 5), need_input_grad=False)
    one = counter.get_total_flops() <= 2 * 4 * 3 * 5
    expect.that(one, "the gradient of x was computed as well", of="linear_backward")


def test_mlp_backward_agrees_with_autograd(student):
    """A unit at exactly 0 gets no gradient, rows add up, and no weight changes."""
    x, w1, w2, upstream = few(6, 3), few(4, 3, seed=1), few(2, 4, seed=2), few(6, 2, seed=3)
    w1[1] = 0  # the second hidden unit is exactly 0 for every row
    leaves = w1.clone().requires_grad_(), w2.clone().requires_grad_()
    want = torch.autograd.grad((x @ leaves[0].T).relu() @ leaves[1].T, leaves, upstream)
    mine, of = (w1.clone(), w2.clone()), "mlp_backward"
    with torch.inference_mode():
        got = student.autograd.mlp_backward(x, *mine, upstream)
    check_pair([g.clone() for g in got], want, ("w1", "w2"), of=of)
    for name, now, was in zip(("w1", "w2"), mine, (w1, w2), strict=True):
        expect.tensor(now, was, of=of, name=f"{name} after the call")


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ((3, 4), (4, 2)),
        ((5, 3, 4), (5, 4, 2)),
        ((5, 3, 4), (4, 2)),
        ((3, 4), (5, 4, 2)),
        ((5, 1, 3, 4), (1, 6, 4, 2)),
    ],
)
def test_matmul_agrees_with_torch(student, a, b):
    """Operands are broadcast on either side, and the upstream gradient need not be contiguous."""
    leaves = [few(*a), few(*b, seed=1)]
    mine, theirs = ([x.clone().requires_grad_() for x in leaves] for _ in range(2))
    inputs = f"a {list(a)}, b {list(b)}"
    got, want = student.autograd.MatMul.apply(*mine), torch.matmul(*theirs)
    student.autograd.MatMul.apply(*(x + 1 for x in leaves))  # another product, as in a model
    upstream = few(*want.shape[:-2], *want.shape[:-3:-1], seed=2).mT
    expect.tensor(got.detach(), want.detach(), of="MatMul.forward", inputs=inputs)
    with expect.suspecting(TRANSPOSED):
        got.backward(upstream)
    want.backward(upstream)
    for name, x, y in zip("ab", mine, theirs, strict=True):
        name = f"the gradient of {name}"
        expect.tensor(x.grad, y.grad, of="MatMul.backward", name=name, inputs=inputs)


@pytest.mark.parametrize("needed", [0, 1])
def test_matmul_gives_only_the_gradient_that_is_needed(student, needed):
    """The gradient that is not needed is not computed, so only one product runs."""
    leaves = [few(3, 4), few(4, 2, seed=1)]
    leaves[needed].requires_grad_()
    product = student.autograd.MatMul.apply(*leaves)
    with FlopCounterMode(display=False) as counter:
        product.backward(torch.ones_like(product))
    expect.that(leaves[needed].grad is not None, "no gradient", of="MatMul.backward")
    hint = "ctx.needs_input_grad tells which gradients are needed"
    one = counter.get_total_flops() <= 2 * 3 * 4 * 2
    expect.that(one, "both gradients were computed", of="MatMul.backward", hint=hint)


def test_matmul_notices_an_operand_that_was_changed(student):
    """As with torch.matmul, backward raises RuntimeError after b was changed in place."""
    a, b = few(2, 3).requires_grad_(), few(3, 2, seed=1).requires_grad_()
    changed = b * 1
    product = student.autograd.MatMul.apply(a, changed)
    with torch.no_grad():
        changed.add_(1)
    with expect.raises(RuntimeError, of="MatMul", when="b was changed in place"):
        product.sum().backward()


def test_numerical_gradient_of_several_inputs(student):
    """A leaf, a transpose and a scalar each get a gradient, and none of them changes by a bit."""
    x = torch.tensor([1 / 3, 1 / 7, 3e-7], dtype=torch.float64).requires_grad_()
    y = torch.linspace(0.1, 0.7, 6, dtype=torch.float64).reshape(2, 3).T
    z = torch.tensor(0.3, dtype=torch.float64)
    before = [t.detach().clone() for t in (x, y, z)]

    def f(x, y, z):
        return (3 * x).sum() + (y**2 * torch.arange(6.0).reshape(3, 2)).sum() + 5 * z

    got = student.autograd.numerical_gradient(f, [x, y, z])
    want = torch.full((3,), 3.0), 2 * y * torch.arange(6.0).reshape(3, 2), torch.tensor(5.0)
    of = "numerical_gradient"
    expect.value(len(got), 3, of=of, name="the number of gradients")
    for name, mine, theirs in zip("xyz", got, want, strict=True):
        name = f"the gradient of {name}"
        expect.tensor(mine.detach(), theirs.double(), of=of, atol=1e-3, name=name)
    for name, now, was in zip("xyz", (x, y, z), before, strict=True):
        expect.that(torch.equal(now.detach(), was), f"{name} has changed", of=of)
    expect.that(torch.is_grad_enabled(), "gradients are disabled afterwards", of=of)


def test_numerical_gradient_moves_one_element_at_a_time(student):
    """x₀·x₁·x₂ at (2, 3, 5) has the gradient (15, 10, 6), also with eps 1."""
    x = torch.tensor([2.0, 3.0, 5.0], dtype=torch.float64)
    for eps in (1.0, 1e-3):
        (got,) = student.autograd.numerical_gradient(lambda x: x.prod(), [x], eps=eps)
        want, inputs = torch.tensor([15.0, 10.0, 6.0]).double(), f"x (2, 3, 5), eps {eps}"
        expect.tensor(got, want, of="numerical_gradient", atol=1e-6, inputs=inputs)


@pytest.mark.parametrize("frozen", [False, True])
def test_intermediate_gradients_of_nested_modules(student, frozen):
    """Names may be nested and in any order, and the module may be frozen.

    The call does not change modes, .grad, requires_grad or existing hooks.
    """
    module = nn.Sequential(nn.Sequential(nn.Linear(2, 2, bias=False), nn.ReLU()), nn.Linear(2, 1))
    module[0][0].weight.data = torch.tensor([[1.0, 1.0], [1.0, -1.0]])
    module[1].weight.data = torch.tensor([[2.0, 3.0]])
    module.requires_grad_(not frozen)
    module[1].weight.grad = torch.full((1, 2), 7.0)
    kept = module[0].register_forward_hook(lambda *_: None)
    x, of = torch.tensor([[1.0, 2.0]]), "intermediate_gradients"
    got = student.autograd.intermediate_gradients(module, x, ["1", "0.0", "0"])
    want = {"1": [[1.0]], "0.0": [[2.0, 0.0]], "0": [[2.0, 3.0]]}
    expect.kind(got, dict, of=of, name="the gradients")
    expect.value(sorted(got), sorted(want), of=of, name="the names")
    for name, gradient in want.items():
        expect.tensor(got[name].detach(), torch.tensor(gradient), of=of, name=name)
    expect.that(kept.id in module[0]._forward_hooks, "another hook was removed", of=of)
    expect.that(module.training and module[1].training, "the mode has changed", of=of)
    flags = [p.requires_grad for p in module.parameters()]
    expect.that(all(flag != frozen for flag in flags), "requires_grad has changed", of=of)
    expect.that(not x.requires_grad, "x requires a gradient afterwards", of=of)
    grad = module[1].weight.grad
    expect.that(grad is not None and grad.eq(7).all().item(), "a .grad was changed", of=of)


def test_intermediate_gradients_before_a_layer_that_works_in_place(student):
    """The example with ReLU(inplace=True): the output of "0" is that of the Linear."""
    module = nn.Sequential(nn.Linear(2, 2, bias=False), nn.ReLU(inplace=True))
    module[0].weight.data = torch.tensor([[1.0, 1.0], [1.0, -1.0]])
    got = student.autograd.intermediate_gradients(module, torch.tensor([[1.0, 2.0]]), ["0"])["0"]
    of, want = "intermediate_gradients", torch.tensor([[1.0, 0.0]])
    expect.tensor(got.detach(), want, of=of, hint="return a copy from the hook")


class Fails(nn.Module):
    """A layer that raises an exception."""

    def forward(self, x):
        raise OSError("too much")


def test_intermediate_gradients_leaves_no_hook_after_an_error(student):
    """No hook is left after an unknown name or after an exception in the module."""
    x, of = torch.ones(1, 2), "intermediate_gradients"
    right, fails = nn.Sequential(nn.Linear(2, 2)), nn.Sequential(nn.Linear(2, 2), Fails())
    wrong = (ValueError, AttributeError, KeyError)
    with expect.raises(wrong, of=of, when="a name is unknown"):
        student.autograd.intermediate_gradients(right, x, ["0", "nowhere"])
    with expect.raises(OSError, of=of, when="the module raises OSError"):
        student.autograd.intermediate_gradients(fails, x, ["0"])
    modules = (*right.modules(), *fails.modules())
    hooks = sum(len(m._forward_hooks) + len(m._backward_hooks) for m in modules)
    expect.value(hooks, 0, of=of, name="the number of hooks left", hint="try … finally")


def keeps_its_numbers(graph):
    """Whether a node of the graph still has what its backward pass needs."""
    try:
        return graph._saved_result is not None
    except RuntimeError:  # the backward pass has freed it
        return False


class Rows(nn.Module):
    """Counts the rows of each call, and checks whether earlier graphs have been freed.

    It has a parameter that it does not use, and a frozen one.
    """

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(2, 1)
        self.unused = nn.Parameter(torch.ones(2))
        self.layer.bias.requires_grad_(False)
        self.rows, self.alive, self.graphs = [], [], []

    def forward(self, x):
        self.rows.append(len(x))
        self.alive += [keeps_its_numbers(graph) for graph in self.graphs]
        z = self.layer(x).tanh()  # keeps its result for the backward pass
        self.graphs.append(z.grad_fn)
        return z


@pytest.mark.parametrize(
    ("size", "rows"), [(2, [2, 2, 2, 1]), (4, [4, 3]), (5, [5, 2]), (7, [7]), (9, [7])]
)
def test_accumulate_gradients_runs_chunks(student, size, rows):
    """The loss and the gradient are those of the whole batch, whatever the size of the chunks."""
    model, of = Rows(), "accumulate_gradients"
    x, y = few(7, 2), few(7, 1, seed=1)
    want = nn.functional.mse_loss(model(x), y)
    (grad,) = torch.autograd.grad(want, [model.layer.weight])
    model.rows, model.graphs, model.alive = [], [], []
    inputs = f"7 rows, micro_batch_size {size}"
    got = student.autograd.accumulate_gradients(model, nn.functional.mse_loss, x, y, size)
    name = "the rows of each call of the model"
    expect.value(sorted(model.rows, reverse=True), rows, of=of, name=name, inputs=inputs)
    expect.number(got, want.item(), of=of, tolerance=1e-5 * want.item(), inputs=inputs)
    expect.tensor(model.layer.weight.grad, grad, of=of, atol=1e-4, name=".grad", inputs=inputs)
    none = model.unused.grad is None and model.layer.bias.grad is None
    expect.that(none, "an unused or a frozen parameter has a .grad", of=of)
    hint = "run the backward pass of a chunk before the next chunk"
    expect.that(not any(model.alive), "the graph of an earlier chunk is alive", of=of, hint=hint)
