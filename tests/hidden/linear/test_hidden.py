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
import torch.nn.functional as F

from kit import expect
from tests.probes import linear as probes

# The std of a standard normal distribution truncated at ±3: 0.98658.
TRUNCATED_STD = math.sqrt(
    1 - 3 * math.exp(-4.5) * math.sqrt(2 / math.pi) / math.erf(3 / math.sqrt(2))
)
# Sizes that occur in training: a right answer is right for all of them.
MAGNITUDES = (1.0, 1e-8, 1e-4, 1e4)


def sizes(rng, count, low=2, high=9):
    """Distinct sizes, so that no two dimensions can be confused."""
    return (low + torch.randperm(high - low, generator=rng)[:count]).tolist()


def check_kind(weight, *, of, dtype=torch.float32, device="cpu"):
    """Check a weight's dtype and device."""
    hint = "are device= and dtype= passed to the tensor that becomes the weight?"
    expected = f"{expect.dtype_name(dtype)} on {device}"
    got = f"{expect.dtype_name(weight.dtype)} on {weight.device.type}"
    expect.that(
        got == expected, f"wrong kind of weight: expected {expected}, got {got}", of=of, hint=hint
    )


def weight_of(got, args, **kind):
    """Check that a Linear made with `args` holds a weight, and return it as out × in."""
    expect.that(
        len(got["weights"]) > 0,
        "the layer holds no matrix",
        of="Linear",
        hint="self.weight = nn.Parameter(...)",
    )
    weight = got["weights"][0]
    if kind:
        check_kind(weight, of="Linear", **kind)
    # Another test judges whether the weight is stored as out × in.
    if tuple(weight.shape) == tuple(args):
        weight = weight.mT
    like = torch.empty(args[1], args[0], dtype=weight.dtype, device=weight.device.type)
    expect.tensor(
        weight.to("meta"),
        like.to("meta"),
        of="Linear",
        name="weight",
        hint="out_features × in_features",
    )
    check_written(weight, of="Linear")
    return weight


def check_written(weight, *, of):
    """Check that the entries are finite."""
    if weight.device.type != "meta":
        finite = bool(weight.isfinite().all())
        expect.that(
            finite,
            "a weight starts with entries that are NaN or infinite",
            of=of,
            facts=expect.UNWRITTEN,
        )


def layer_weights(weights, dims, *, of="MLP", **kind):
    """The weights as out × in, in the order of the layers; their shapes identify them."""
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


def drawn(rng, dims, scale=1.0):
    """Weights of out × in for layers of these sizes, of either sign."""
    return [torch.randn(o, i, generator=rng) * scale * i**-0.5 for i, o in itertools.pairwise(dims)]


def relu_stack(x, weights, dtype=torch.float32):
    """Return the float64 output of an MLP with these weights, and the largest error of one in
    `dtype`.

    A sum of k products is off by at most (k + 1)·eps·Σ|x||w|, and an error already in its input
    grows by Σ|w|.
    """
    y, error = x.double(), torch.zeros_like(x, dtype=torch.float64)
    for depth, weight in enumerate(weights):
        w = weight.double()
        if depth:
            y = F.relu(y)
        error = (error + (w.shape[1] + 1) * torch.finfo(dtype).eps * (y.abs() + error)) @ w.abs().T
        y = y @ w.T
    return y, error.max().item() if error.numel() else 0.0


def run(student, kind, args, weights, x, **options):
    """Run a module with these weights, after a check that it holds matrices for them."""
    # Another test judges whether the module changes dims.
    args = [list(a) if isinstance(a, list) else a for a in args]
    got = student.run(probes.forward, kind=kind, args=args, weights=weights, x=x, **options)
    reason = "the module holds no matrix of out × in"
    expect.that(got["has_weights"], reason, of=kind, hint="self.weight = nn.Parameter(...)")
    return got


def spread(x):
    """The same numbers, not contiguous and with an offset in their storage."""
    wide = torch.full((*x.shape, 2), 7, dtype=x.dtype)
    wide[..., 1] = x
    return wide[..., 1]


def check_output(student, kind, args, weights, x, *, hint, **options):
    """Check the output of a module with these weights, in float32."""
    got = run(student, kind, args, weights, x, **options)
    expected, error = relu_stack(x, weights)
    expect.tensor(
        got["output"],
        expected.float(),
        of=f"{kind}.forward",
        atol=2 * error,
        name="the output",
        hint=hint,
    )


def check_std(ratio, tolerance, *, of, hint="is std 1/sqrt(in_features)?"):
    """Check a std, given as a ratio to the right one, against a relative tolerance."""
    reason = f"the weight's standard deviation is {ratio:.3g} times what it should be"
    expect.that(abs(ratio - 1) < tolerance, reason, of=of, hint=hint)


def check_truncated_normal(weight, std, *, of):
    """Check that a float32 weight's entries follow the normal distribution truncated at ±3 std."""
    z = weight.double().flatten() / std
    n = z.numel()
    # The relative error of a sample's std is 1/sqrt(2n) for a normal distribution, and smaller for
    # a truncated one.
    check_std(z.std().item() / TRUNCATED_STD, max(7 / math.sqrt(2 * n), 0.013), of=of)
    hint = (
        "the bounds are -3·std and 3·std: a and b of trunc_normal_ are values, not multiples of std"
    )
    expect.that(
        z.abs().max().item() <= 3 * (1 + 1e-6),
        "an entry lies beyond 3 standard deviations",
        of=of,
        hint=hint,
    )
    centred = abs(z.mean().item()) < 7 / math.sqrt(n)
    expect.that(centred, "the mean of the weight's entries is not 0", of=of)
    for bound in (0.5, 1.0, 2.0):
        p = math.erf(bound / math.sqrt(2)) / math.erf(3 / math.sqrt(2))
        share = (z.abs() < bound).double().mean().item()
        normal = abs(share - p) < 7 * math.sqrt(p * (1 - p) / n)
        expect.that(
            normal,
            "the weight's entries are not normally distributed",
            of=of,
            hint="nn.init.trunc_normal_",
        )
    # A right weight has about 9 of a million draws here; clamping would put 2700 here.
    at_the_bound = (z.abs() > 2.999).double().mean().item()
    hint = "redraw a value beyond 3·std instead of moving it to the bound"
    expect.that(at_the_bound < 1e-3, "entries pile up at 3 standard deviations", of=of, hint=hint)


# --- Linear


# Stays: a weight that no optimizer finds is a worse mistake than a weight with another name.
@pytest.mark.core
@pytest.mark.points(8)
def test_linear_registers_its_weight(student, rng):
    """The weight is a trainable parameter of the layer, so that an optimizer finds it."""
    i, o = sizes(rng, 2)
    got = student.run(probes.module, kind="Linear", args=(i, o))
    weight_of(got, (i, o))
    hint = "self.weight = nn.Parameter(...)"
    expect.that(
        any(got["trainable"]), "the layer has no trainable parameter", of="Linear", hint=hint
    )


@pytest.mark.points(6)
def test_linear_has_one_parameter(student, rng):
    """A layer has exactly one parameter, `weight`, of out_features × in_features, and no bias."""
    i, o = sizes(rng, 2)
    got = student.run(probes.module, kind="Linear", args=(i, o))
    hint = "self.weight = nn.Parameter(...), no bias"
    expect.value(
        got["names"], ["weight"], of="Linear", name="the names of its parameters", hint=hint
    )
    expect.value(
        got["state"], ["weight"], of="Linear", name="the keys of its state_dict", hint=hint
    )
    shapes = [tuple(w.shape) for w in got["weights"]]
    expect.value(
        shapes[:1],
        [(o, i)],
        of="Linear",
        name="the weight's shape",
        hint="out_features × in_features",
    )


# Stays: this test checks the formula. A mistake in it also breaks an MLP, but not the other way
# round.
@pytest.mark.core
@pytest.mark.points(8)
def test_linear_for_any_leading_dimensions(student, rng):
    """y = x Wᵀ for inputs with any number of leading dimensions, for small and large numbers."""
    i, o = sizes(rng, 2)
    hint = (
        "multiply along the last dimension, and leave the other dimensions and all numbers "
        "as they are"
    )
    for leading in [(4,), (), (2, 5, 3)]:
        check_output(
            student,
            "Linear",
            (i, o),
            drawn(rng, (i, o)),
            torch.randn(*leading, i, generator=rng),
            hint=hint,
        )
    for scale in MAGNITUDES:
        x = torch.randn(6, i, generator=rng)
        check_output(student, "Linear", (i, o), drawn(rng, (i, o)), x * scale, hint=hint)
        check_output(student, "Linear", (i, o), drawn(rng, (i, o), scale), x, hint=hint)


# Stays: only this test checks layouts of a Linear's input; an MLP may handle them itself.
@pytest.mark.points(2)
def test_linear_of_an_input_that_is_not_contiguous_or_empty(student, rng):
    """The input may be non-contiguous, or have no rows, as for an expert that gets no tokens.

    Sizes may be 1, gradients disabled, and every call of a layer gives the same.
    """
    i, o = sizes(rng, 2)
    stepped = torch.randn(5, 3, 2 * i, generator=rng)[:, 1:, ::2]
    turned = torch.randn(i, 4, 3, generator=rng).permute(2, 1, 0)
    for x, hint in [
        (stepped, "does the code need x.view?"),
        (turned, "does the code need x.view?"),
        (torch.empty(0, i), "0 rows"),
        (spread(turned), "does the code use x's storage?"),
        (stepped[:1, :1].expand(3, 4, i), "does the code use x's storage?"),
        (torch.zeros(3, 1, i), "0 times a weight is 0"),
    ]:
        check_output(student, "Linear", (i, o), drawn(rng, (i, o)), x, hint=hint)
    small = [((1, o), (4,)), ((i, 1), (4,)), ((i, 1), (2, 1)), ((1, 1), (1,))]
    for args, leading in [*small, ((i, o), (4,))]:
        x, weights = torch.randn(*leading, args[0], generator=rng), drawn(rng, args)
        options = {"again": args[0] == 1 or args[1] == o, "grad_enabled": args[0] == 1}
        hint = "a layer keeps nothing from one call to the next"
        check_output(student, "Linear", args, weights, x, hint=hint, **options)


@pytest.mark.core
@pytest.mark.points(8)
def test_linear_gradients(student, rng):
    """Gradients of any size reach the weight and the input, and the input is not changed.

    A frozen weight still lets the input's gradient through, and 0 rows give a gradient of zeros.
    """
    i, o = sizes(rng, 2)
    calls = [(scale, 6, {}) for scale in MAGNITUDES]
    calls += [(1.0, 6, {"again": True, "of_data": True}), (1.0, 6, {"frozen": [0]}), (1.0, 0, {})]
    for scale, n, options in calls:
        (weight,) = drawn(rng, (i, o))
        x, upstream = torch.randn(n, i, generator=rng), torch.randn(n, o, generator=rng) * scale
        got = run(student, "Linear", (i, o), [weight], x, upstream=upstream, **options)
        expect.tensor(
            got["x"],
            x,
            of="Linear.forward",
            name="x after the call",
            hint="do not change x in place",
        )
        g = upstream.double()
        gradients = {
            "x": (got["x_gradient"], g @ weight.double()),
            "the weight": (
                transposed_to(got["weight_gradients"][0], weight.shape),
                g.T @ x.double(),
            ),
        }
        if options:  # x is data, or the weight is frozen
            del gradients["the weight" if "frozen" in options else "x"]
        for which, (gradient, expected) in gradients.items():
            hint = (
                "use the parameter itself, without .data or .detach(), and do not rescale or "
                "clamp any number"
            )
            expect.that(
                gradient is not None, f"no gradient reaches {which}", of="Linear.forward", hint=hint
            )
            # Each entry sums fewer than ten products of numbers below 6.
            tolerance = 10 * torch.finfo(torch.float32).eps * 360 * scale
            name = f"the gradient of {which}"
            expect.tensor(
                gradient,
                expected.float(),
                of="Linear.forward",
                atol=tolerance,
                name=name,
                hint=hint,
            )


def transposed_to(gradient, shape):
    """Return a gradient as out × in, whichever way the weight is stored."""
    return gradient if gradient is None or gradient.shape == shape else gradient.mT


@pytest.mark.core
@pytest.mark.points(12)
def test_linear_is_drawn_from_a_truncated_normal(student, rng):
    """Entries are normal with std 1/sqrt(in_features), truncated at ±3 std.

    They do not depend on out_features.
    """
    i, o = sizes(rng, 2, 20, 400)
    for args in [(i, 150_000 // i), (150_000 // o, o), (1, 20_000), (20_000, 1)]:
        options = {"device": "cpu", "dtype": torch.float32} if 1 in args else {}
        got = student.run(probes.module, kind="Linear", args=args, **options)
        check_truncated_normal(weight_of(got, args), 1 / math.sqrt(args[0]), of="Linear")
    # In 2**21 draws, about 15 lie beyond the bounds both times if they are drawn twice.
    # More than 8 draws of right weights equal their extremes less than once in 1e9 runs.
    count = student.run(probes.spikes, kind="Linear", args=(2**11, 2**6), modules=2**4)
    reason = "many entries of large weights are equal to their largest or smallest one"
    hint = "draw again until no value is beyond 3·std, not only once"
    expect.that(count <= 8, reason, of="Linear", hint=hint)


@pytest.mark.points(1)
def test_linear_is_drawn_alike_in_half_precision(student, rng):
    """A bfloat16 or float16 weight has the std and bounds of a float32 one, up to rounding."""
    (i,) = sizes(rng, 1, 100, 400)
    std, args = 1 / math.sqrt(i), (i, 100_000 // i)
    own = weight_of(student.run(probes.module, kind="Linear", args=args), args).double() / std
    expect.that(bool(own.any()), "a float32 layer is 0 everywhere", of="Linear")
    # If the float32 weight is not truncated, another test fails.
    truncated = own.abs().max().item() <= 3 * (1 + 1e-6)
    for dtype in (torch.bfloat16, torch.float16):
        z = (
            weight_of(
                student.run(probes.module, kind="Linear", args=args, dtype=dtype), args, dtype=dtype
            ).double()
            / std
        )
        # Drawing in few bits shifts the std by less than 1 %. Chance shifts it by less than 2 % in
        # each of the two samples of 100,000 numbers.
        hint = "is dtype= passed to the tensor in which the numbers are drawn?"
        check_std(z.std().item() / own.std().item(), 0.06, of="Linear", hint=hint)
        inside = not truncated or z.abs().max().item() <= 3 * (1 + torch.finfo(dtype).eps)
        expect.that(
            inside,
            "an entry lies beyond 3 standard deviations",
            of="Linear",
            hint="are the bounds -3·std and 3·std?",
        )


@pytest.mark.points(2)
def test_linear_in_every_float_dtype(student, rng):
    """Weight and output have the requested dtype, and a float64 layer computes in float64."""
    i, o = sizes(rng, 2)
    some = [(dtype, 7) for dtype in (torch.float64, torch.float16, torch.bfloat16, torch.float32)]
    for dtype, n in [*some, (torch.float64, 0), (torch.float16, 0)]:
        x = torch.randn(n, i, generator=rng, dtype=torch.float64).to(dtype)
        got = student.run(probes.module, kind="Linear", args=(i, o), x=x, dtype=dtype)
        weight = weight_of(got, (i, o), dtype=dtype).double()
        # Another test judges whether a layer in float32 has a trainable parameter.
        frozen = bool(got["trainable"]) and not any(got["trainable"])
        expect.that(not frozen, f"a weight in {dtype} is not trainable", of="Linear")
        sums = (x.double().abs() @ weight.abs().T).flatten().tolist()
        tolerance = (i + 1) * torch.finfo(dtype).eps * max(sums, default=0.0)
        hint = "pass dtype= to the tensor that becomes the weight, and compute in x's own dtype"
        expected = (x.double() @ weight.T).to(dtype)
        expect.tensor(
            got["output"],
            expected,
            of="Linear.forward",
            atol=tolerance,
            name="the output",
            hint=hint,
        )


@pytest.mark.points(2)
def test_linear_on_the_meta_device(student, rng):
    """On the meta device a layer has a shape and a dtype and can run, but takes no memory."""
    i, o = sizes(rng, 2)
    x = torch.empty(3, i, device="meta")
    got = student.run(probes.module, kind="Linear", args=(i, o), x=x, device="meta")
    weight = weight_of(got, (i, o))
    frozen = bool(got["trainable"]) and not any(got["trainable"])
    expect.that(not frozen, "a weight on meta is not trainable", of="Linear")
    hint = "is device= passed to the tensor that becomes the weight?"
    expect.value(weight.device.type, "meta", of="Linear", name="the weight's device", hint=hint)
    expect.tensor(
        got["output"], torch.empty(3, o, device="meta"), of="Linear.forward", name="the output"
    )
    by_object = {"args": (i, o), "device": "meta", "device_by_name": False}
    for dtype in (torch.float32, torch.bfloat16):
        made = student.run(probes.module, kind="Linear", **by_object, dtype=dtype)
        weight_of(made, (i, o), device="meta", dtype=dtype)
    large = student.run(probes.module, kind="Linear", args=(2**20, 2**21), device="meta")
    expect.value(
        weight_of(large, (2**20, 2**21)).device.type,
        "meta",
        of="Linear",
        name="the weight's device",
        hint=hint,
    )


@pytest.mark.points(1)
def test_defaults_are_those_of_torch(student, rng):
    """Without device= and dtype= the weights follow torch's default device and default dtype."""
    i, h, o = sizes(rng, 3)
    inputs = {"dtype": torch.float64, "device": "meta"}
    for kind, args in [("Linear", (i, o)), ("MLP", ([i, h, o],))]:
        got = student.run(probes.module_under_defaults, kind=kind, args=args, **inputs)
        expect.that(len(got) > 0, "the module holds no matrix", of=kind)
        for weight in got:
            check_kind(weight, of=kind, dtype=torch.float64, device="meta")


@pytest.mark.points(1)
def test_two_modules_are_drawn_anew(student, rng):
    """Two modules of the same size, made one after the other, have different weights."""
    i, o = sizes(rng, 2, 6, 12)
    for kind, args in [("Linear", (i, o)), ("MLP", ([i, o, i],))]:
        first, second = student.run(probes.pair, kind=kind, args=args)
        expect.that(len(first) > 0 and len(second) > 0, "the module holds no matrix", of=kind)
        for weight in (*first, *second):
            check_written(weight, of=kind)
        same = any(torch.equal(a, b) for a in first for b in second)
        expect.that(
            not same,
            "two modules start with the same weights",
            of=kind,
            hint="does the module set the seed?",
        )


# Stays: another test moves an MLP to its dtype before it gets its weights.
@pytest.mark.points(2)
def test_modules_can_be_moved(student, rng):
    """After `.to(torch.float64)` a module computes in float64 with all of its weights."""
    dims = sizes(rng, 3)
    x = torch.randn(5, dims[0], generator=rng, dtype=torch.float64)
    for kind, args, ends in [
        ("Linear", (dims[0], dims[-1]), [dims[0], dims[-1]]),
        ("MLP", (dims,), dims),
    ]:
        got = student.run(probes.module, kind=kind, args=args, x=x, to=torch.float64)
        hint = "is every weight a registered parameter, and used as it is?"
        layer_weights(got["weights"], ends, of=kind, dtype=torch.float64)
        like = torch.empty(5, ends[-1], dtype=torch.float64, device="meta")
        output = got["output"]
        expect.kind(output, torch.Tensor, of=f"{kind}.forward", name="the output")
        expect.tensor(output.to("meta"), like, of=f"{kind}.forward", name="the output", hint=hint)


@pytest.mark.points(1)
def test_linear_refuses_an_input_that_does_not_fit(student, rng):
    """An input whose last dimension is not in_features raises an error, torch's own or another."""
    i, o = sizes(rng, 2)
    errors = (ValueError, RuntimeError)
    weights, x = drawn(rng, (i, o)), torch.randn(4, i, generator=rng)
    with expect.right_call("an input with in_features features"):
        output = run(student, "Linear", (i, o), weights, x)["output"]
        expect.kind(output, torch.Tensor, of="Linear.forward", name="the output")
        expect.value(tuple(output.shape), (4, o), of="Linear.forward", name="the output's shape")
    for shape in [(4, i + 1), (i + 2,), (i, 2 * i)]:
        with expect.raises(
            errors, of="Linear.forward", when="x's last dimension is not in_features"
        ):
            student.run(
                probes.module, kind="Linear", args=(i, o), x=torch.randn(shape, generator=rng)
            )


# --- MLP


@pytest.mark.core
@pytest.mark.points(10)
def test_mlp_has_one_weight_a_layer(student, rng):
    """An MLP of n + 1 sizes registers n trainable weights and nothing else. dims is unchanged."""
    one = student.run(probes.module, kind="Linear", args=(2, 3))
    # Another test judges a bias in Linear.
    each = max(1, len(one["names"]))
    for count in (2, 3, 5):
        dims = sizes(rng, count)
        got = student.run(probes.module, kind="MLP", args=(list(dims),))
        hint = (
            "one registered weight of out × in for each layer: nn.ModuleList registers the layers"
        )
        names, state = len(got["names"]), len(got["state"])
        expect.that(
            names == each * (count - 1),
            f"{names} parameters for {count - 1} layers",
            of="MLP",
            hint=hint,
        )
        layer_weights(got["weights"], dims)
        expect.that(all(got["trainable"]), "a weight is not trainable", of="MLP")
        hint = "the state_dict contains only the weights"
        expect.that(
            state == names,
            f"its state_dict has {state} tensors for {names} parameters",
            of="MLP",
            hint=hint,
        )
        expect.value(
            got["args"], [dims], of="MLP", name="dims after the call", hint="is dims changed?"
        )


@pytest.mark.core
@pytest.mark.points(12)
def test_mlp_has_relus_between_its_layers(student, rng):
    """A ReLU follows every layer but the last, for small and large numbers."""
    hint = "max(0, x) between the layers, for every x, and none after the last layer"
    # Five sizes make four layers: enough to show which of them lacks its ReLU. Layers may have
    # names, in whose alphabetical order the eleventh comes before the third.
    for count in (5, 3, 4, 6, 13):
        dims = sizes(rng, count, 3, 20)
        check_output(
            student,
            "MLP",
            (dims,),
            drawn(rng, dims),
            torch.randn(40, dims[0], generator=rng),
            hint=hint,
        )
    dims = sizes(rng, 4, 3, 12)
    for scale in MAGNITUDES:
        x = torch.randn(20, dims[0], generator=rng) * scale
        check_output(student, "MLP", (dims,), drawn(rng, dims), x, hint=hint)
    a, h, b = sizes(rng, 3, 3, 12)
    first, square, last = drawn(rng, [a, h, h, b])
    square = (square + square.T) / 2  # symmetric, so a transposed one is equal
    # All layers of one shape get the same weight, so it does not matter which of them is which.
    for dims, weights in [
        ([a, h, h, b], [first, square, last]),
        ([a, h, h], [first, square]),
        ([h, h, b], [square, last]),
        ([h] * 4, [square] * 3),
        ([a, h, a, h], [first, first.T, first]),
    ]:
        x = torch.randn(20, dims[0], generator=rng)
        hint = "the position of a layer, and not its size, tells whether a ReLU follows"
        check_output(student, "MLP", (dims,), weights, x, hint=hint)


@pytest.mark.points(2)
def test_mlp_of_one_layer_is_linear(student, rng):
    """An MLP of two sizes is one layer without a ReLU."""
    dims = sizes(rng, 2)
    x = torch.randn(50, dims[0], generator=rng)
    check_output(
        student,
        "MLP",
        (dims,),
        drawn(rng, dims),
        x,
        hint="no ReLU after the last layer, even if it is the only one",
    )


@pytest.mark.points(1)
def test_mlp_keeps_leading_dimensions(student, rng):
    """An MLP's input may have no leading dimensions, or several, and any layout and dtype.

    The caller may change its list of sizes afterwards.
    """
    dims = sizes(rng, 3)
    weights, x = drawn(rng, dims), torch.randn(2, 3, 4, dims[0], generator=rng)
    own = run(student, "MLP", (dims,), weights, x.flatten(0, 2))["output"]
    expect.kind(own, torch.Tensor, of="MLP.forward", name="the output")
    expect.that(
        own.shape == (24, dims[-1]) and bool(own.any()),
        "no output for a batch of rows",
        of="MLP.forward",
    )
    atol = 1e-5 * own.abs().max().item()  # only the order of sums can differ
    same, leading = own.reshape(2, 3, 4, -1), "y has the same leading dimensions as x"
    other = "y depends on the numbers in x, not on how they are stored or when"
    for given, expected, hint, options in [
        (x, same, leading, {}),
        (x[0, 0, 0], own[0], leading, {}),
        (x[:, :1], same[:, :1], leading, {}),
        (x[:0], same[:0], leading, {}),
        (spread(x), same, other, {"again": True}),
        (x[:1].expand(5, 3, 4, -1), same[:1].expand(5, 3, 4, -1), other, {"grad_enabled": False}),
        (x, same, other, {"upstream": torch.ones_like(same)}),
        (torch.zeros_like(x), torch.zeros_like(same), "0 times a weight is 0", {}),
        (x, same, "does the module keep the caller's list?", {"lists_change": True}),
    ]:
        got = run(student, "MLP", (list(dims),), weights, given, **options)["output"]
        expect.tensor(got, expected, of="MLP.forward", atol=atol, name="the output", hint=hint)
    for dtype in (torch.float64, torch.bfloat16, torch.float16):
        few = [t.to(dtype).float() for t in (x, *weights)]  # the numbers that this dtype has
        own = run(student, "MLP", (dims,), few[1:], few[0])["output"]
        got = run(student, "MLP", (dims,), few[1:], few[0].to(dtype), dtype=dtype)["output"]
        error = sum(relu_stack(few[0], few[1:], t)[1] for t in {dtype, torch.float32})
        name = f"the output in {expect.dtype_name(dtype)}"
        expect.tensor(got, own.to(dtype), of="MLP.forward", atol=2 * error, name=name)


@pytest.mark.points(4)
def test_mlp_gradients(student, rng):
    """Gradients reach every weight of an MLP and its input, and the input is not changed.

    They pass through frozen layers, and 0 rows give a gradient to every weight too.
    """
    dims = sizes(rng, 4)
    weights = [w.abs() + 0.1 for w in drawn(rng, dims)]  # all above 0, so that no unit is dead
    x, upstream = (
        torch.rand(6, dims[0], generator=rng) + 0.1,
        torch.rand(6, dims[-1], generator=rng) + 0.1,
    )
    got = run(student, "MLP", (dims,), weights, x, upstream=upstream)
    expect.tensor(
        got["x"],
        x,
        of="MLP.forward",
        name="x after the call",
        hint="do not change x in place",
    )
    hint = "gradients have to pass through every layer"
    for which, gradient in [
        ("x", got["x_gradient"]),
        *(("a weight", g) for g in got["weight_gradients"]),
    ]:
        reached = gradient is not None and bool(gradient.isfinite().all()) and bool(gradient.any())
        expect.that(reached, f"no gradient reaches {which}", of="MLP.forward", hint=hint)
    # Another test judges whether Linear itself does so.
    one = {"kind": "Linear", "args": (dims[0], dims[1]), "weights": weights[:1]}
    upstream_of_one = torch.ones(6, dims[1])
    own = run(student, x=x, upstream=upstream_of_one, frozen=[0], **one)["x_gradient"]
    got = run(student, "MLP", (dims,), weights, x, upstream=upstream, frozen=[0, 1])
    for name, gradient in [("x", got["x_gradient"]), ("a weight", got["weight_gradients"][-1])]:
        reached = own is None or (gradient is not None and bool(gradient.any()))
        reason = f"no gradient reaches {name} if other layers are frozen"
        expect.that(reached, reason, of="MLP.forward", hint=hint)
    own = run(student, x=x[:0], upstream=upstream_of_one[:0], **one)["weight_gradients"]
    got = run(student, "MLP", (dims,), weights, x[:0], upstream=upstream[:0])["weight_gradients"]
    zeros = None in own or all(g is not None and not bool(g.any()) for g in got)
    reason = "0 rows do not give every weight a gradient of zeros"
    expect.that(zeros, reason, of="MLP.forward", hint="do 0 rows pass through the layers too?")


@pytest.mark.points(4)
def test_mlp_layers_share_nothing(student, rng):
    """Layers of the same size are separate parameters with different values."""
    (size,) = sizes(rng, 1)
    got = student.run(probes.module, kind="MLP", args=([size] * 5,))
    hint = "make a new layer for each position"
    count = len(got["weights"])
    expect.that(count == 4, f"{count} weights for 4 layers", of="MLP", hint=hint)
    for weight in got["weights"]:
        check_written(weight, of="MLP")
    same = any(torch.equal(a, b) for a, b in itertools.combinations(got["weights"], 2))
    expect.that(not same, "two layers start with the same weight", of="MLP", hint=hint)


@pytest.mark.points(4)
def test_mlp_layers_are_drawn_like_linear(student, rng):
    """Each layer's weight is drawn like that of a Linear of the same size."""
    a, b = sizes(rng, 2, 100, 300)
    of, hint = "MLP", "is each layer's weight drawn as Linear draws its own?"
    for dims, options in [
        ([a, 60_000 // a, b, 10], {"device": None, "dtype": None}),
        ((1, 20_000, 1), {"device": "cpu"}),
        ([a, 100], {}),
    ]:
        got = student.run(probes.module, kind="MLP", args=(dims,), **options)
        weights = layer_weights(got["weights"], dims)
        for weight, args in zip(weights, itertools.pairwise(dims), strict=True):
            own = weight_of(student.run(probes.module, kind="Linear", args=args), args)
            expect.that(bool(own.any()), "a Linear of this size is 0 everywhere", of="Linear")
            ratio = weight.double().std().item() / own.double().std().item()
            # The relative error of each std is below 1/sqrt(2n).
            check_std(ratio, 10 / math.sqrt(2 * weight.numel()), of=of, hint=hint)
            further = weight.abs().max().item() / own.abs().max().item()
            reason = "the largest weights are not those of a Linear"
            expect.that(0.5 < further < 1.5, reason, of=of, hint=hint)


@pytest.mark.points(2)
def test_mlp_lives_where_it_is_wanted(student, rng):
    """An MLP passes device= and dtype= on to each of its layers."""
    dims = sizes(rng, 4)
    for device, dtype in [
        ("meta", torch.float32),
        ("cpu", torch.bfloat16),
        ("meta", torch.float64),
    ]:
        # Another test judges whether Linear itself follows device= and dtype=.
        own = student.run(probes.module, kind="Linear", args=(2, 3), device=device, dtype=dtype)[
            "weights"
        ]
        expect.that(len(own) > 0, "the layer holds no matrix", of="Linear")
        got = student.run(probes.module, kind="MLP", args=(dims,), device=device, dtype=dtype)
        kind = {"dtype": own[0].dtype, "device": own[0].device.type}
        layer_weights(got["weights"], dims, **kind)


# --- count_parameters


def check_counts(student, expected, expected_trainable, *, hint, **tree):
    """Check count_parameters of a module with these parameters, for all and for trainable ones."""
    got = student.run(probes.counts, **tree)
    expect.value(got["all"], expected, of="count_parameters", name="the count of all", hint=hint)
    name = "the count with trainable_only=False"
    expect.value(got["all_on_request"], expected, of="count_parameters", name=name, hint=hint)
    name = "the count with trainable_only=True"
    expect.value(got["trainable"], expected_trainable, of="count_parameters", name=name, hint=hint)
    name, again = "the count with one scalar more", "is something kept from an earlier call?"
    expect.value(
        got["all_with_one_more"], expected + 1, of="count_parameters", name=name, hint=again
    )
    changed = "a module's mode has changed"
    expect.that(got["modes_are_the_same"], changed, of="count_parameters")


@pytest.mark.core
@pytest.mark.points(8)
def test_count_parameters_counts_elements(student, rng):
    """All elements of all parameters count, those of submodules included; a scalar counts as 1."""
    a, b, c = sizes(rng, 3)
    parameters = {"w": [a, b], "block.w": [c], "block.inner.w": [a, b, c], "gain": []}
    total = a * b + c + a * b * c + 1
    hint = "count elements, not tensors, and include submodules"
    for dtype in (torch.float32, torch.float64, torch.bfloat16):
        check_counts(student, total, total, hint=hint, parameters=parameters, dtype=dtype)


@pytest.mark.core
@pytest.mark.points(4)
def test_count_parameters_counts_a_tied_parameter_once(student, rng):
    """A parameter with several names counts once; separate but equal parameters all count."""
    a, b = sizes(rng, 2)
    tree = {
        "parameters": {"embed.w": [a, b], "twin.w": [a, b]},
        "ties": {"head.w": "embed.w", "deep.er.w": "embed.w"},
    }
    check_counts(
        student,
        2 * a * b,
        2 * a * b,
        hint="is a tied parameter counted twice, or an equal but separate one skipped?",
        **tree,
    )
    hint = "a tied parameter that is frozen is left out once, and one that is not counts once"
    for frozen in ("embed.w", "twin.w"):
        check_counts(student, 2 * a * b, a * b, hint=hint, frozen=[frozen], **tree)


@pytest.mark.core
@pytest.mark.points(4)
def test_count_parameters_of_a_frozen_part(student, rng):
    """A frozen parameter is left out with trainable_only=True, and counted without it."""
    a, b, c = sizes(rng, 3)
    shapes, total = {"w": [a, b], "v": [b, c], "gain": [c]}, a * b + b * c + c
    hint = "requires_grad, not the mode, tells whether a parameter is trainable"
    for options, trainable in [
        ({"frozen": ["v"]}, a * b + c),
        ({"frozen": ["v"], "evaluates": True}, a * b + c),
        ({"frozen": ["w", "v", "gain"], "dtype": torch.int8}, 0),
    ]:
        check_counts(student, total, trainable, hint=hint, parameters=shapes, **options)


@pytest.mark.points(2)
def test_count_parameters_ignores_buffers(student, rng):
    """Buffers, such as running means, do not count, and neither does a bias that is None."""
    a, b = sizes(rng, 2)
    hint = "are buffers counted?"
    buffers = {"mean": [b], "block.mask": [b, b]}
    for parameters, total in [({"w": [a, b]}, a * b), ({}, 0)]:
        check_counts(student, total, total, hint=hint, parameters=parameters, buffers=buffers)
    hint = "a layer without a bias registers None in its place"
    given = {"parameters": {"w": [a, b]}, "absent": ["bias", "block.bias"]}
    check_counts(student, a * b, a * b, hint=hint, **given)


@pytest.mark.points(1)
def test_count_parameters_of_a_module_without_memory(student, rng):
    """Parameters on the meta device count too."""
    a, b = sizes(rng, 2)
    parameters = {"w": [a, b], "v": [a, b], "huge": [2**27 + 1, 2**27 + 1]}
    total = 2 * a * b + (2**27 + 1) * (2**27 + 1)
    hint = "meta tensors have no address, so compare parameters by identity"
    for frozen, trainable in [([], total), (["v", "huge"], a * b)]:
        given = {"parameters": parameters, "device": "meta", "frozen": frozen}
        check_counts(student, total, trainable, hint=hint, **given)
