"""linear: a linear layer, a stack of them, and a count of parameters.

Accepted on purpose, because the result is the same: any names and any order of an MLP's parameters
(the tests identify them by shape, so the sizes here are distinct); matmul, einsum or a sum of
products; trunc_normal_, the inverse of the distribution function or redrawing, with torch's,
numpy's or Python's generator.

Each mistake costs points once. Tests of a forward pass put their own weights into the module,
transposed if the module stores them so, and therefore do not depend on how weights are drawn, on
their dtype or on whether they are registered. Whatever an MLP gets from Linear is compared with the
student's own Linear.

The oracles are matrix products in float64, and for the initial weights the moments of the truncated
normal distribution. No right solution fails by chance: counts and moments of n draws may deviate by
7 standard deviations, which they exceed with a probability below 1e-11.
"""

import itertools
import math

import pytest
import torch

from kit import expect
from tests.hidden import sizes
from tests.probes import linear as probes

# The std of a standard normal distribution truncated at ±3: 0.98658.
TRUNCATED_STD = math.sqrt(
    1 - 3 * math.exp(-4.5) * math.sqrt(2 / math.pi) / math.erf(3 / math.sqrt(2))
)


def check_kind(weight, *, of, dtype=torch.float32, device="cpu"):
    hint = "are device= and dtype= passed to the tensor that becomes the weight?"
    expected = f"{expect.dtype_name(dtype)} on {device}"
    got = f"{expect.dtype_name(weight.dtype)} on {weight.device.type}"
    reason = f"wrong kind of weight: expected {expected}, got {got}"
    expect.that(got == expected, reason, of=of, hint=hint)


def layer_weights(weights, dims, *, of="MLP", **kind):
    """The weights as out × in, in the order of the layers; their shapes identify them.

    Another test judges whether they are stored as out × in.
    """
    found = {tuple(w.shape): w for w in weights}
    layers = []
    for i, o in itertools.pairwise(dims):
        weight = found.get((o, i), found[i, o].mT if (i, o) in found else None)
        reason = "a layer's weight is missing, or has the wrong shape"
        expect.that(weight is not None, reason, of=of, hint="one weight of out × in for each layer")
        layers.append(weight)
        check_written(weight, of=of)
        if kind:
            check_kind(weight, of=of, **kind)
    return layers


def check_written(weight, *, of):
    if weight.device.type != "meta":
        reason = "a weight starts with entries that are NaN or infinite"
        expect.that(bool(weight.isfinite().all()), reason, of=of, facts=expect.UNWRITTEN)


def weight_of(student, args):
    """The weight of a new Linear, as out × in."""
    got = student.run(probes.module, kind="Linear", args=args)
    return layer_weights(got["weights"], args, of="Linear")[0]


def drawn(rng, dims):
    """Weights of out × in for layers of these sizes, of either sign."""
    return [torch.randn(o, i, generator=rng) * i**-0.5 for i, o in itertools.pairwise(dims)]


def relu_stack(x, weights):
    y = x.double()
    for depth, weight in enumerate(weights):
        y = (y.relu() if depth else y) @ weight.double().T
    return y


# Outputs and gradients are sums of at most 9 products, of numbers of a few units, over at most four
# layers. Rounding in float32 is below 1e-5, and a mistake is above 1e-2.
ROUNDING = {"atol": 1e-4, "rtol": 1e-4}


def run(student, kind, args, weights, x, **options):
    """Run a module with these weights, after a check that it holds matrices for them."""
    got = student.run(probes.forward, kind=kind, args=args, weights=weights, x=x, **options)
    reason = "the module holds no matrix of out × in"
    expect.that(got["has_weights"], reason, of=kind, hint="self.weight = nn.Parameter(...)")
    return got


def check_output(student, kind, args, weights, x, *, hint):
    got = run(student, kind, args, weights, x)["output"]
    expected = relu_stack(x, weights).float()
    expect.tensor(got, expected, of=f"{kind}.forward", name="the output", hint=hint, **ROUNDING)


# --- Linear


# Stays: a weight that no optimizer finds is a worse mistake than a weight with another name.
@pytest.mark.harm("trains worse")
def test_linear_registers_its_weight(student, rng):
    """The weight is a trainable parameter of the layer, so that an optimizer finds it."""
    got = student.run(probes.module, kind="Linear", args=sizes(rng, 2))
    reason = "the layer has no trainable parameter"
    expect.that(any(got["trainable"]), reason, of="Linear", hint="self.weight = nn.Parameter(...)")


@pytest.mark.harm("crash")
def test_linear_has_one_parameter(student, rng):
    """A layer has exactly one parameter, `weight`, of out_features × in_features, and no bias."""
    i, o = sizes(rng, 2)
    got = student.run(probes.module, kind="Linear", args=(i, o))
    options = {"of": "Linear", "hint": "self.weight = nn.Parameter(...), no bias"}
    expect.value(got["names"], ["weight"], name="the names of its parameters", **options)
    expect.value(got["state"], ["weight"], name="the keys of its state_dict", **options)
    shapes, name = [tuple(w.shape) for w in got["weights"]], "the shapes of its matrices"
    expect.value(shapes, [(o, i)], of="Linear", name=name, hint="out × in")


# Stays: this test checks the formula. A mistake in it also breaks an MLP, but not the other way
# round.
@pytest.mark.harm("trains worse")
def test_linear_multiplies_by_its_weight(student, rng):
    """y = x Wᵀ."""
    i, o = sizes(rng, 2)
    x = torch.randn(4, i, generator=rng)
    hint = "each output is the product of x with one row of the weight"
    check_output(student, "Linear", (i, o), drawn(rng, (i, o)), x, hint=hint)


@pytest.mark.harm("crash")
def test_modules_take_any_leading_dimensions(student, rng):
    """x has no, one or several leading dimensions, which y keeps, and need not be contiguous."""
    dims = sizes(rng, 3)
    weights = drawn(rng, dims)
    x = torch.randn(2, 4, 3, dims[0], generator=rng)
    turned = x.transpose(0, 3).contiguous().transpose(0, 3)
    for kind, args, used in [("Linear", dims[:2], weights[:1]), ("MLP", (dims,), weights)]:
        of = f"{kind}.forward"
        rows = run(student, kind, args, used, x.flatten(0, 2))["output"]
        expect.kind(rows, torch.Tensor, of=of, name="the output")
        like = torch.empty(24, used[-1].shape[0], device="meta")
        expect.tensor(rows.to("meta"), like, of=of, name="the output")
        expect.that(bool(rows.any()), "every output is 0", of=of)
        leading, layout = "y keeps the leading dimensions of x", "does the code need x.view?"
        whole = rows.reshape(2, 4, 3, -1)  # other tests judge the numbers
        for given, want, hint in [
            (x[0, 0, 0], rows[0], leading),
            (x, whole, leading),
            (turned, whole, layout),
        ]:
            got = run(student, kind, args, used, given)["output"]
            expect.tensor(got, want, of=of, name="the output", hint=hint, **ROUNDING)


def gradients_of_products(x, weights, upstream):
    """The gradients of x and of the weights, where every unit is alive, so ReLU does nothing."""
    inputs, found = [x], []
    for weight in weights:
        inputs.append(inputs[-1] @ weight.mT)
    for weight, before in zip(reversed(weights), reversed(inputs[:-1]), strict=True):
        found.insert(0, upstream.mT @ before)
        upstream = upstream @ weight
    return [upstream, *found]


@pytest.mark.harm("trains worse")
def test_gradients_reach_the_weights_and_the_input(student, rng):
    """Gradients are those of the formula, for every weight and for the input."""
    dims = sizes(rng, 4)
    weights = [w.abs() + 0.1 for w in drawn(rng, dims)]  # all above 0, so that no unit is dead
    hint = "use the parameters themselves, without .data or .detach()"
    for kind, args, given in [("Linear", dims[:2], weights[:1]), ("MLP", (dims,), weights)]:
        x = torch.rand(6, dims[0], generator=rng) + 0.1
        upstream = torch.randn(6, given[-1].shape[0], generator=rng)
        got = run(student, kind, args, given, x, upstream=upstream)
        gradients = [got["x_gradient"], *got["weight_gradients"]]
        wanted = gradients_of_products(x.double(), [w.double() for w in given], upstream.double())
        for depth, (gradient, want) in enumerate(zip(gradients, wanted, strict=True)):
            which, of = f"weight {depth}" if depth else "x", f"{kind}.forward"
            expect.that(gradient is not None, f"no gradient reaches {which}", of=of, hint=hint)
            gradient = gradient if gradient.shape == want.shape else gradient.mT
            name = f"the gradient of {which}"
            expect.tensor(gradient, want.float(), of=of, name=name, hint=hint, **ROUNDING)


@pytest.mark.harm("trains worse")
def test_linear_is_drawn_with_the_right_std(student, rng):
    """The standard deviation is 1/sqrt(in_features), whatever out_features is."""
    i, o = sizes(rng, 2, 20, 400)
    for args in [(i, 150_000 // i), (150_000 // o, o)]:
        ratio = weight_of(student, args).double().std().item() * math.sqrt(args[0]) / TRUNCATED_STD
        reason = f"the weight's standard deviation is {ratio:.3g} times what it should be"
        # 7 standard deviations of the sample's std are 1.3 %. A weight without truncation has 1.4 %
        # too much; another test judges it.
        expect.that(abs(ratio - 1) < 0.03, reason, of="Linear", hint="is std 1/sqrt(in_features)?")


@pytest.mark.harm("wrong number")
def test_linear_is_drawn_from_a_truncated_normal(student, rng):
    """Entries are normally distributed around 0 and truncated at ±3 std, where none pile up."""
    (i,) = sizes(rng, 1, 20, 400)
    # Of so many entries, several lie beyond even if each is drawn again, but only once.
    weight = weight_of(student, (i, 10**6 // i)).double().flatten()
    expect.that(bool(weight.any()), "every entry of the weight is 0", of="Linear")
    z, n = weight / weight.std() * TRUNCATED_STD, weight.numel()  # another test judges the std
    hint = "the bounds are ±3·std: a and b of trunc_normal_ are values, not multiples of std"
    reason = "an entry lies beyond 3 standard deviations"
    # The sample's own std is off by less than 1.3 %; without truncation, the largest of so many
    # entries is at 4 standard deviations or beyond.
    expect.that(z.abs().max().item() <= 3.04, reason, of="Linear", hint=hint)
    centred = abs(z.mean().item()) < 7 / math.sqrt(n)
    expect.that(centred, "the mean of the weight's entries is not 0", of="Linear")
    for bound in (0.5, 1.0, 2.0):
        p = math.erf(bound / math.sqrt(2)) / math.erf(3 / math.sqrt(2))
        share = (z.abs() < bound).double().mean().item()
        # To divide by the sample's own std moves a share by less than the tolerance.
        normal = abs(share - p) < 7 * math.sqrt(p * (1 - p) / n) + 0.003
        reason = "the weight's entries are not normally distributed"
        expect.that(normal, reason, of="Linear", hint="nn.init.trunc_normal_")
    # Rounding puts a few right entries onto one number. Clamping puts 2700 at the bound.
    piled = int((weight.abs() > weight.abs().max() * (1 - 1e-4)).sum())
    hint = "redraw a value beyond 3·std instead of moving it to the bound"
    expect.that(piled < 100, "entries pile up at 3 standard deviations", of="Linear", hint=hint)


@pytest.mark.harm("crash")
def test_linear_lives_where_it_is_wanted(student, rng):
    """The weight has the dtype and the device that the layer is given, or those of `.to(...)`."""
    i, o = sizes(rng, 2)
    for options, dtype in [
        ({"dtype": torch.float64}, torch.float64),
        ({"dtype": torch.bfloat16}, torch.bfloat16),
        ({"to": torch.float64}, torch.float64),
    ]:
        x = torch.randn(7, i, generator=rng, dtype=torch.float64).to(dtype)
        got = student.run(probes.module, kind="Linear", args=(i, o), x=x, **options)
        (weight,) = layer_weights(got["weights"], (i, o), of="Linear", dtype=dtype)
        tolerance = (i + 1) * torch.finfo(dtype).eps * (x.double().abs() @ weight.double().abs().T)
        expected = (x.double() @ weight.double().T).to(dtype)
        options = {"of": "Linear.forward", "hint": "compute in x's own dtype"}
        atol = tolerance.max().item()
        expect.tensor(got["output"], expected, atol=atol, name="the output", **options)
    huge = (2**24, 2**23)  # in no memory, not even for a moment
    got = student.run(probes.module, kind="Linear", args=huge, device="meta")
    layer_weights(got["weights"], huge, of="Linear", device="meta")


# --- MLP


# Stays: layers in a plain list never learn, and this message says how to register them.
@pytest.mark.harm("trains worse")
def test_mlp_registers_one_weight_per_layer(student, rng):
    """An MLP of n + 1 sizes registers n trainable weights, and nothing else."""
    one = student.run(probes.module, kind="Linear", args=(2, 3))
    each = max(1, len(one["names"]))  # another test judges a bias in Linear
    hint = "one registered weight of out × in for each layer: nn.ModuleList registers the layers"
    for count in (3, 5):
        dims = sizes(rng, count)
        got = student.run(probes.module, kind="MLP", args=(dims,))
        names, state = len(got["names"]), len(got["state"])
        reason = f"{names} parameters for {count - 1} layers"
        expect.that(names == each * (count - 1), reason, of="MLP", hint=hint)
        layer_weights(got["weights"], dims)
        expect.that(all(got["trainable"]), "a weight is not trainable", of="MLP")
        reason = f"its state_dict has {state} tensors for {names} parameters"
        expect.that(state == names, reason, of="MLP", hint=hint)


@pytest.mark.harm("trains worse")
def test_mlp_has_relus_between_its_layers(student, rng):
    """A ReLU follows every layer but the last."""
    hint = "max(0, x) between the layers, and none after the last layer"
    for count in (3, 5):
        dims = sizes(rng, count, 3, 12)
        x = torch.randn(40, dims[0], generator=rng)
        check_output(student, "MLP", (dims,), drawn(rng, dims), x, hint=hint)
    # Symmetric and equal, so it does not matter which layer is which.
    (square,) = drawn(rng, [dims[0]] * 2)
    hint = "the position of a layer, and not its size, tells whether a ReLU follows"
    check_output(student, "MLP", ([dims[0]] * 4,), [square + square.T] * 3, x, hint=hint)


@pytest.mark.harm("rare")
def test_mlp_of_one_layer_is_linear(student, rng):
    """An MLP of two sizes is one layer without a ReLU."""
    dims = sizes(rng, 2)
    x = torch.randn(50, dims[0], generator=rng)
    hint = "no ReLU after the last layer, even if it is the only one"
    check_output(student, "MLP", (dims,), drawn(rng, dims), x, hint=hint)


@pytest.mark.harm("trains worse")
def test_every_weight_is_drawn_anew(student, rng):
    """Layers of the same size are separate parameters, and all modules have different values."""
    (size,) = sizes(rng, 1, 6, 12)
    for kind, args, layers in [("Linear", (size, size), 1), ("MLP", ([size] * 5,), 4)]:
        both = student.run(probes.pair, kind=kind, args=args)
        expect.parts(both, 2, of=kind, name="modules")
        for weights in both:
            reason = f"{len(weights)} weights for {layers} layers"
            hint = "make a new layer for each position"
            expect.that(len(weights) == layers, reason, of=kind, hint=hint)
        for weight in itertools.chain(*both):
            check_written(weight, of=kind)
        same = any(torch.equal(a, b) for a, b in itertools.combinations(itertools.chain(*both), 2))
        hint = "does the module set the seed, or copy a weight?"
        expect.that(not same, "two weights start with the same values", of=kind, hint=hint)


@pytest.mark.harm("trains worse")
def test_mlp_layers_are_drawn_like_linear(student, rng):
    """Each layer's weight is drawn like that of a Linear of the same size."""
    a, b = sizes(rng, 2, 100, 300)
    dims = [a, 60_000 // a, b, 100]
    weights = layer_weights(student.run(probes.module, kind="MLP", args=(dims,))["weights"], dims)
    for weight, args in zip(weights, itertools.pairwise(dims), strict=True):
        own = weight_of(student, args).double().std().item()
        expect.that(own > 0, "a Linear of this size is 0 everywhere", of="Linear")
        ratio = weight.double().std().item() / own
        reason = f"a weight's standard deviation is {ratio:.3g} times that of a Linear"
        hint = "is each layer's weight drawn as Linear draws its own?"
        # The relative error of each std is below 1/sqrt(2n).
        right = abs(ratio - 1) < 10 / math.sqrt(2 * weight.numel())
        expect.that(right, reason, of="MLP", hint=hint)


@pytest.mark.harm("crash")
def test_mlp_lives_where_it_is_wanted(student, rng):
    """An MLP passes device= and dtype= on to each of its layers."""
    dims = sizes(rng, 4)
    for options in [{"dtype": torch.bfloat16}, {"device": "meta"}]:
        # Another test judges whether Linear itself follows device= and dtype=.
        own = student.run(probes.module, kind="Linear", args=(2, 3), **options)["weights"]
        expect.that(len(own) > 0, "the layer holds no matrix", of="Linear")
        got = student.run(probes.module, kind="MLP", args=(dims,), **options)
        layer_weights(got["weights"], dims, dtype=own[0].dtype, device=own[0].device.type)


# --- count_parameters


def check_counts(student, total, trainable, *, hint, **tree):
    """Check count_parameters of a module with these parameters, for all and for trainable ones."""
    got = student.run(probes.counts, **tree)
    for which, expected in [("all", total), ("trainable", trainable)]:
        name = f"the count of {which} parameters"
        expect.value(got[which], expected, of="count_parameters", name=name, hint=hint)


@pytest.mark.harm("wrong number")
def test_count_parameters_counts_elements(student, rng):
    """All elements of all parameters count, those of submodules included, and of no buffer."""
    a, b, c = sizes(rng, 3)
    parameters = {"w": [a, b], "twin": [a, b], "block.w": [c], "block.in.w": [a, b, c], "gain": []}
    total = 2 * a * b + c + a * b * c + 1
    hint = "count elements, not tensors, and include submodules"
    check_counts(student, total, total, hint=hint, parameters=parameters)
    tree = {"parameters": {"w": [a, b]}, "buffers": {"mean": [b], "block.mask": [b, b]}}
    check_counts(student, a * b, a * b, hint="are buffers counted?", **tree)


@pytest.mark.harm("wrong number")
def test_count_parameters_counts_a_tied_parameter_once(student, rng):
    """A parameter with several names counts once; separate but equal parameters all count."""
    a, b = sizes(rng, 2)
    ties = {"head.w": "embed.w", "deep.er.w": "embed.w"}
    hint = "is a tied parameter counted twice, or an equal but separate one skipped?"
    tree = {"parameters": {"embed.w": [a, b], "twin.w": [a, b]}, "ties": ties}
    check_counts(student, 2 * a * b, 2 * a * b, hint=hint, **tree)
    hint = 'on the device "meta", all parameters have the address 0'
    check_counts(student, 2 * a * b, 2 * a * b, hint=hint, device="meta", **tree)


@pytest.mark.harm("wrong number")
def test_count_parameters_of_a_frozen_part(student, rng):
    """A frozen parameter is left out with trainable_only=True, and counted without it."""
    a, b, c = sizes(rng, 3)
    tree = {"parameters": {"w": [a, b], "v": [b, c], "gain": [c]}, "frozen": ["v"]}
    hint = "requires_grad tells whether a parameter is trainable"
    check_counts(student, a * b + b * c + c, a * b + c, hint=hint, **tree)


@pytest.mark.harm("not refused")
def test_nothing_that_is_given_changes(student, rng):
    """The caller's list of sizes, the input and the module's mode stay as they were."""
    dims = sizes(rng, 3)
    x = torch.randn(4, dims[0], generator=rng)
    got = student.run(probes.used, dims=list(dims), x=x.clone())
    expect.kind(got["output"], torch.Tensor, of="MLP.forward", name="the output")
    expect.value(got["dims"], dims, of="MLP", name="dims after the call", hint="is dims changed?")
    hint = "do not change x in place"
    expect.tensor(got["x"], x, of="MLP.forward", name="x after the call", hint=hint)
    like = torch.empty(4, dims[-1], device="meta")
    expect.tensor(got["output"].to("meta"), like, of="MLP.forward")
    expect.value(got["count"], dims[0] * dims[1], of="count_parameters")
    expect.that(got["training"], "a module's mode has changed", of="count_parameters")
