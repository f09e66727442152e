"""linear: a linear layer, a stack of linear layers, and a count of parameters. Handout §7.1."""

import pytest
import torch

from kit import expect


def parameters(mlp, count):
    """The parameters of an MLP of so many layers."""
    found = list(mlp.parameters())
    hints = {0: "layers in a plain list are not registered: nn.ModuleList registers them"}
    if count > 1:
        hints[1] = "is one layer used several times?"
    expect.value(len(found), count, of="MLP", name="the number of its parameters", hints=hints)
    return found


def layers(mlp, dims):
    """The weights of an MLP whose sizes all differ, from the first to the last layer."""
    found = {tuple(weight.shape): weight for weight in parameters(mlp, len(dims) - 1)}
    shapes = [(dims[i + 1], dims[i]) for i in range(len(dims) - 1)]
    expect.value(sorted(found), sorted(shapes), of="MLP", name="the shapes of the weights")
    return [found[shape] for shape in shapes]


def test_linear_of_the_example(student):
    """Weight [[2, 3]] maps (1, 10) to 2·1 + 3·10 = 32, with any leading dimensions."""
    layer = student.linear.Linear(2, 1)
    names = [name for name, _ in layer.named_parameters()]
    hints = [([], "self.weight = nn.Parameter(...)"), (["weight", "bias"], "there is no bias")]
    expect.value(names, ["weight"], of="Linear", name="the names of its parameters", hints=hints)
    layer.load_state_dict({"weight": torch.tensor([[2.0, 3.0]])})
    x = torch.tensor([1.0, 10.0])
    inputs = "x [1, 10], weight [[2, 3]]"
    expect.tensor(layer(x), torch.tensor([32.0]), of="Linear.forward", inputs=inputs)
    got, want = layer(x.expand(5, 4, 2)), torch.full((5, 4, 1), 32.0)
    expect.tensor(got, want, of="Linear.forward", inputs="x [5, 4, 2]")


def test_linear_is_drawn_within_three_standard_deviations(student):
    """With in_features 4, the standard deviation is 1/2 and no entry is beyond ±1.5."""
    weight = student.linear.Linear(4, 5000).weight
    name = "weight"
    expect.tensor(weight.to("meta"), torch.empty(5000, 4, device="meta"), of="Linear", name=name)
    largest, std = weight.abs().max().item(), weight.std().item()
    bounds = "±3 std are the bounds, here ±1.5: trunc_normal_ does not take multiples of std"
    hint = bounds if abs(std - 0.5) < 0.02 else None
    expect.that(largest <= 1.5, "an entry lies beyond 3 · 0.5", of="Linear", hint=hint)
    known = {
        0.0141: "std is 1/sqrt(in_features), not 1/sqrt(out_features)",
        0.247: "1/in_features is the variance, and std is its root",
        0.44: "the bounds are ±3 std, not ±2",
    }
    hint = next((text for wrong, text in known.items() if abs(std / wrong - 1) < 0.02), None)
    name = "the standard deviation of the entries"
    expect.number(std, 0.493, of="Linear", tolerance=0.02, name=name, hint=hint)


def test_mlp_of_two_layers(student):
    """A ReLU between the layers and none after the last: 1 → -2 → 0 → 0, and -1 → 2 → 2 → -6."""
    mlp = student.linear.MLP((1, 1, 1))
    first, last = parameters(mlp, 2)
    with torch.no_grad():
        first.fill_(-2.0)
        last.fill_(-3.0)
    x, expected = torch.tensor([[1.0], [-1.0]]), torch.tensor([[0.0], [-6.0]])
    hints = [
        (torch.tensor([[0.0], [0.0]]), "a ReLU is between two layers, not before or after them"),
        (torch.tensor([[6.0], [-6.0]]), "there is a ReLU between the layers"),
    ]
    inputs = "x [[1], [-1]], weights -2 and -3"
    expect.tensor(mlp(x), expected, of="MLP.forward", inputs=inputs, hints=hints)


@pytest.mark.parametrize(("trainable_only", "expected"), [(False, 18), (True, 6)])
def test_count_parameters_of_the_example(student, trainable_only, expected):
    """MLP((4, 3, 2)) has 3·4 + 2·3 = 18 parameters.

    If its first layer is frozen, 6 of them are trainable.
    """
    mlp = student.linear.MLP((4, 3, 2))
    layers(mlp, (4, 3, 2))[0].requires_grad_(False)
    got = student.linear.count_parameters(mlp, trainable_only=trainable_only)
    hints = {2: "count the elements of the parameters, not the parameters"}
    frozen = {12: "these are the frozen ones", 18: "frozen parameters do not count here"}
    hints |= frozen if trainable_only else {}
    inputs = f"MLP((4, 3, 2)), first layer frozen, trainable_only {trainable_only}"
    expect.value(got, expected, of="count_parameters", inputs=inputs, hints=hints)


def agrees(got, want, **more):
    """Check two float64 tensors."""
    expect.tensor(got, want, atol=1e-9, rtol=1e-9, **more)


@pytest.mark.parametrize("shape", [(6,), (2, 6), (2, 3, 6)])
def test_linear_agrees_with_torch(student, shape):
    """Any leading dimensions, none included, and both gradients."""
    generator = torch.Generator().manual_seed(0)
    layer = student.linear.Linear(6, 4, dtype=torch.float64)
    layer.load_state_dict({"weight": torch.randn(4, 6, generator=generator)})
    x = torch.randn(*shape, generator=generator, dtype=torch.float64).requires_grad_()
    y = layer(x)
    weight = layer.weight.detach().clone().requires_grad_()
    x2 = x.detach().clone().requires_grad_()
    want = torch.nn.functional.linear(x2, weight)
    agrees(y.detach(), want.detach(), of="Linear.forward", inputs=f"x {list(shape)}")
    upstream = torch.randn(want.shape, generator=generator, dtype=torch.float64)
    y.backward(upstream)
    want.backward(upstream)
    expect.that(layer.weight.grad is not None, "the weight gets no gradient", of="Linear.forward")
    agrees(layer.weight.grad, weight.grad, of="Linear.forward", name="the weight's gradient")
    agrees(x.grad, x2.grad, of="Linear.forward", name="the gradient of x")


def test_linear_takes_an_x_that_is_not_contiguous(student):
    """A transpose has other strides, and gives what its copy gives."""
    layer = student.linear.Linear(3, 2)
    x = torch.arange(24.0).reshape(4, 3, 2).transpose(1, 2)
    got, want, inputs = layer(x), layer(x.contiguous()), "x.transpose(1, 2), x [4, 3, 2]"
    expect.tensor(got.detach(), want.detach(), of="Linear.forward", atol=1e-5, inputs=inputs)


def test_linear_draws_a_normal_distribution(student):
    """About 68 % of 20,000 entries are within one standard deviation, and none are at the bounds.

    Clamping would move 0.3 % of the entries to the bounds; a uniform distribution has only 58 %
    within one standard deviation.
    """
    weight = student.linear.Linear(4, 5000).weight.detach()
    inside = (weight.abs() < 0.5).double().mean().item()
    expect.number(inside, 0.684, of="Linear", tolerance=0.02, name="the share within 1 std")
    at_the_bounds = (weight.abs() > 1.4999).sum().item()
    expect.that(at_the_bounds < 10, f"{at_the_bounds} draws lie at ±3 std", of="Linear")


def test_layers_are_drawn_anew(student):
    """Layers of the same size differ, and each layer of an MLP has 1/√in times 0.987."""
    first, second = student.linear.Linear(3, 3), student.linear.Linear(3, 3)
    expect.that(not torch.equal(first.weight, second.weight), "two layers are equal", of="Linear")
    one, other = (parameters(student.linear.MLP((3, 3, 3)), 2) for _ in range(2))
    expect.that(not torch.equal(one[0], one[1]), "both layers are equal", of="MLP")
    expect.that(not torch.equal(one[0], other[0]), "two MLPs are equal", of="MLP")
    wide = layers(student.linear.MLP((100, 400, 300)), (100, 400, 300))
    for weight, std in zip(wide, (0.0987, 0.0493), strict=True):
        got, name = weight.std().item(), "the standard deviation of a layer"
        hint = "each layer of an MLP is drawn as a Linear of its size"
        expect.number(got, std, of="MLP", tolerance=0.05 * std, name=name, hint=hint)


@pytest.mark.parametrize("dims", [(3, 2), (3, 4, 2), (3, 5, 4, 2)])
def test_mlp_agrees_with_torch(student, dims):
    """One, two and three layers: values and the gradient of every weight."""
    generator = torch.Generator().manual_seed(0)
    mlp = student.linear.MLP(dims, dtype=torch.float64)
    with torch.no_grad():
        for weight in layers(mlp, dims):
            weight.copy_(torch.randn(weight.shape, generator=generator))
    x = torch.randn(2, 4, dims[0], generator=generator, dtype=torch.float64)
    copies = [weight.detach().clone().requires_grad_() for weight in layers(mlp, dims)]
    want = x
    for number, weight in enumerate(copies):
        want = want @ weight.T
        want = want.relu() if number < len(copies) - 1 else want
    got = mlp(x)
    inputs = f"dims {dims}, x [2, 4, {dims[0]}]"
    agrees(got.detach(), want.detach(), of="MLP.forward", inputs=inputs)
    got.sum().backward()
    want.sum().backward()
    for number, (weight, copy) in enumerate(zip(layers(mlp, dims), copies, strict=True), 1):
        expect.that(weight.grad is not None, f"layer {number} gets no gradient", of="MLP.forward")
        agrees(weight.grad, copy.grad, of="MLP.forward", name=f"the gradient of layer {number}")


def test_mlp_is_made_where_it_is_wanted(student):
    """All layers are on the meta device, in bfloat16, and the forward pass works there."""
    mlp = student.linear.MLP((3, 4, 2), device="meta", dtype=torch.bfloat16)
    want = [torch.empty(4, 3), torch.empty(2, 4)]
    for weight, shape in zip(layers(mlp, (3, 4, 2)), want, strict=True):
        expect.tensor(weight, shape.to("meta", torch.bfloat16), of="MLP", name="a weight")
    y = mlp(torch.empty(5, 3, device="meta", dtype=torch.bfloat16))
    expect.tensor(y, torch.empty(5, 2, device="meta", dtype=torch.bfloat16), of="MLP.forward")


def test_count_parameters_of_tied_and_other_tensors(student):
    """A tied weight counts once, however many names it has; a scalar counts; a buffer does not.

    A 3×3 weight under three names, a scalar, and the weight and bias of a batch norm of 3 features:
    9 + 1 + 3 + 3 = 16, of which 3 are frozen.
    """
    module = torch.nn.Module()
    module.a, module.b, module.c = (torch.nn.Linear(3, 3, bias=False) for _ in range(3))
    module.b.weight = module.c.weight = module.a.weight
    module.scale = torch.nn.Parameter(torch.tensor(1.0))
    module.norm = torch.nn.BatchNorm1d(3)  # weight, bias and three buffers
    module.norm.weight.requires_grad_(False)
    of, inputs = "count_parameters", "a 3×3 weight under three names, a scalar, batch norm of 3"
    hints = {
        34: "the weight has three names, but counts once",
        25: "the weight has three names, but counts once",
        23: "buffers are no parameters",
        41: "buffers are no parameters, and the weight has three names, but counts once",
        15: "a scalar is a parameter, too",
    }
    got = student.linear.count_parameters(module)
    expect.value(got, 16, of=of, inputs=inputs, hints=hints)
    got = student.linear.count_parameters(module, trainable_only=True)
    expect.value(got, 13, of=of, inputs=f"{inputs} with a frozen weight, trainable_only")
    twins = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Linear(2, 2))
    for p in twins.parameters():
        torch.nn.init.zeros_(p)
    expect.value(student.linear.count_parameters(twins), 12, of=of, inputs="two layers of zeros")


def test_nothing_that_is_given_changes(student):
    """The list of sizes and the mode of the module stay as they were."""
    dims = [4, 3, 2]
    mlp = student.linear.MLP(dims)
    expect.value(dims, [4, 3, 2], of="MLP", name="dims after the call")
    student.linear.count_parameters(mlp)
    expect.value(mlp.training, True, of="count_parameters", name="the module's mode afterwards")
