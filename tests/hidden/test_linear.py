"""linear: a linear layer, a stack of them, and a count of parameters.

Accepted on purpose, since the result is the same: any names and any order of an MLP's parameters (they are told apart
by shape, so the sizes here are distinct); matmul, einsum or a sum of products; trunc_normal_, the inverse of the
distribution function or drawing again, from torch's, numpy's or Python's generator; torch's own RuntimeError for an
input that does not fit; einsum's broadcasting of a last dimension of size 1; two Parameter objects on one storage
counted once or twice (not asked: a tied parameter is one object).

Oracles are F.linear in float64 and the moments of the truncated normal distribution. No right solution fails by chance:
counts and moments of n draws get 7 standard deviations, which they leave with a probability below 1e-11.
"""

import itertools
import math

import torch
import torch.nn.functional as F

from tests import expect
from tests.probes import linear as probes

# Of a standard normal truncated at ±3: 0.98658.
TRUNCATED_STD = math.sqrt(1 - 3 * math.exp(-4.5) * math.sqrt(2 / math.pi) / math.erf(3 / math.sqrt(2)))


def sizes(rng, count, low=2, high=9):
    """Distinct sizes, so that no two dimensions can be confused."""
    return (low + torch.randperm(high - low, generator=rng)[:count]).tolist()


def check_kind(weight, *, of, dtype=torch.float32, device="cpu"):
    """A weight has this dtype and device."""
    hint = "are device= and dtype= given to the tensor that becomes the weight?"
    expected = f"{expect.dtype_name(dtype)} on {device}"
    got = f"{expect.dtype_name(weight.dtype)} on {weight.device.type}"
    expect.that(got == expected, f"wrong kind of weight: expected {expected}, got {got}", of=of, hint=hint)


def weight_of(got, args, **kind):
    """The weight of a Linear made with `args`, once it is known to be out × in and of this dtype and device."""
    count = len(got["weights"])
    expect.that(count == 1, f"{count} parameters, expected one", of="Linear", hint="self.weight = nn.Parameter(...), no bias")
    (weight,) = got["weights"]
    check_kind(weight, of="Linear", **kind)
    like = torch.empty(args[1], args[0], dtype=weight.dtype, device="meta")
    expect.tensor(weight.to("meta"), like, of="Linear", name="weight", hint="out_features × in_features")
    return weight


def layer_weights(weights, dims, *, of="MLP", **kind):
    """The weights in the order of the layers, told apart by their shapes, once dtype and device are known to be right."""
    shapes = [(o, i) for i, o in itertools.pairwise(dims)]
    found = {tuple(w.shape): w for w in weights}
    hint = "one registered weight of out × in for each layer, and no bias"
    reason = f"{len(weights)} parameters for {len(shapes)} layers"
    expect.that(len(weights) == len(shapes), reason, of=of, hint=hint)
    expect.that(sorted(found) == sorted(shapes), "weights of wrong shapes", of=of, hint=hint)
    for weight in weights:
        check_kind(weight, of=of, **kind)
    return [found[shape] for shape in shapes]


def relu_stack(x, weights):
    """What an MLP with these weights gives."""
    for weight in weights[:-1]:
        x = F.relu(F.linear(x, weight))
    return F.linear(x, weights[-1])


def rounding(x, weight):
    """How far rounding may take x Wᵀ: a sum of k products is off by at most k·eps·Σ|x||w|, and rounded once more."""
    largest = F.linear(x.double().abs(), weight.double().abs()).max().item() if x.numel() else 0.0
    return (weight.shape[1] + 1) * torch.finfo(weight.dtype).eps * largest


def check_std(z, tolerance, *, of):
    """Entries in units of the std asked for have the std of a truncated normal, up to a relative tolerance."""
    ratio = z.std().item() / TRUNCATED_STD
    reason = f"the weight's standard deviation is {ratio:.3g} times what it should be"
    expect.that(abs(ratio - 1) < tolerance, reason, of=of, hint="is std 1/sqrt(in_features)?")


def check_truncated_normal(weight, std, *, of):
    """The entries of a float32 weight follow the normal distribution of this std, truncated at ±3 std."""
    z = weight.double().flatten() / std
    n = z.numel()
    hint = "are the bounds -3·std and 3·std, with std 1/sqrt(in_features)?"
    expect.that(z.abs().max().item() <= 3 * (1 + 1e-6), "an entry lies beyond 3 standard deviations", of=of, hint=hint)
    # The relative error of a sample's std is 1/sqrt(2n) for a normal and less for a truncated one.
    check_std(z, 7 / math.sqrt(2 * n), of=of)
    centred = abs(z.mean().item()) < 7 / math.sqrt(n)
    expect.that(centred, "the mean of the weight's entries is not 0", of=of)
    for bound in (0.5, 1.0, 2.0):
        p = math.erf(bound / math.sqrt(2)) / math.erf(3 / math.sqrt(2))
        share = (z.abs() < bound).double().mean().item()
        normal = abs(share - p) < 7 * math.sqrt(p * (1 - p) / n)
        expect.that(normal, "the weight's entries are not normally distributed", of=of, hint="nn.init.trunc_normal_")
    # 9 of a million draws lie there; clamping puts 2700 there.
    at_the_bound = (z.abs() > 2.999).double().mean().item()
    hint = "a draw beyond 3·std is drawn again, not moved to the bound"
    expect.that(at_the_bound < 1e-3, "entries pile up at 3 standard deviations", of=of, hint=hint)


def test_linear_has_one_parameter(student, rng):
    """A layer registers one trainable parameter, `weight`, of out_features × in_features, and no bias."""
    i, o = sizes(rng, 2)
    got = student.run(probes.module, kind="Linear", args=(i, o))
    hint = "self.weight = nn.Parameter(...), no bias"
    expect.value(got["names"], ["weight"], of="Linear", hint=hint)
    expect.value(got["state"], ["weight"], of="Linear", hint=hint)
    expect.value(got["trainable"], [True], of="Linear", hint=hint)
    weight_of(got, (i, o))


def test_linear_for_any_leading_dimensions(student, rng):
    """Inputs may have no, one or several leading dimensions, and no entries at all."""
    i, o = sizes(rng, 2)
    for leading in [(), (4,), (2, 5, 3), (1, 1), (0,), (3, 0, 2)]:
        x = torch.randn(*leading, i, generator=rng)
        got = student.run(probes.module, kind="Linear", args=(i, o), x=x)
        weight = weight_of(got, (i, o))
        expected = F.linear(x.double(), weight.double()).float()
        hint = "multiply along the last dimension and keep the others"
        expect.tensor(got["output"], expected, of="Linear.forward", atol=rounding(x, weight), hint=hint)


def test_linear_of_an_input_that_is_not_contiguous(student, rng):
    """A transposed or stepped input is as good as any other."""
    i, o = sizes(rng, 2)
    stepped = torch.randn(5, 3, 2 * i, generator=rng)[:, 1:, ::2]
    for x in (stepped, torch.randn(i, 4, 3, generator=rng).permute(2, 1, 0)):
        got = student.run(probes.module, kind="Linear", args=(i, o), x=x)
        weight = weight_of(got, (i, o))
        expected = F.linear(x.double(), weight.double()).float()
        hint = "does it need x.view?"
        expect.tensor(got["output"], expected, of="Linear.forward", atol=rounding(x, weight), hint=hint)


def test_linear_in_every_float_dtype(student, rng):
    """Weight and output have the dtype asked for, and a float64 layer computes in float64."""
    i, o = sizes(rng, 2)
    for dtype in (torch.float64, torch.float16, torch.bfloat16, torch.float32):
        x = torch.randn(7, i, generator=rng, dtype=torch.float64).to(dtype)
        got = student.run(probes.module, kind="Linear", args=(i, o), x=x, dtype=dtype)
        weight = weight_of(got, (i, o), dtype=dtype)
        expected = F.linear(x.double(), weight.double()).to(dtype)
        expect.tensor(got["output"], expected, of="Linear.forward", atol=rounding(x, weight), hint="in x's own dtype")


def test_linear_on_the_meta_device(student, rng):
    """On the meta device a layer has a shape and a dtype and runs, and nothing takes memory."""
    i, o = sizes(rng, 2)
    x = torch.empty(3, i, device="meta", dtype=torch.bfloat16)
    got = student.run(probes.module, kind="Linear", args=(i, o), x=x, device="meta", dtype=torch.bfloat16)
    weight_of(got, (i, o), dtype=torch.bfloat16, device="meta")
    expect.tensor(got["output"], torch.empty(3, o, device="meta", dtype=torch.bfloat16), of="Linear.forward")
    large = student.run(probes.module, kind="Linear", args=(2**20, 2**21), device="meta")
    weight_of(large, (2**20, 2**21), device="meta")


def test_defaults_are_those_of_torch(student, rng):
    """Without device= and dtype= the weights follow torch's default device and default dtype."""
    i, h, o = sizes(rng, 3)
    inputs = {"dtype": torch.float64, "device": "meta"}
    for kind, args in [("Linear", (i, o)), ("MLP", ((i, h, o),))]:
        got = student.run(probes.module_under_defaults, kind=kind, args=args, **inputs)
        expect.that(len(got) > 0, "no parameter is registered", of=kind)
        for weight in got:
            check_kind(weight, of=kind, dtype=torch.float64, device="meta")


# Stays: an MLP of Linears shares what is wrong with Linear's draws, and only this test says whose fault it is.
def test_linear_is_drawn_from_a_truncated_normal(student, rng):
    """Entries follow a normal distribution of std 1/sqrt(in_features), truncated at ±3 std, for any out_features."""
    i, o = sizes(rng, 2, 20, 400)
    for args in [(i, 200_000 // i), (200_000 // o, o)]:
        got = student.run(probes.module, kind="Linear", args=args)
        check_truncated_normal(weight_of(got, args), 1 / math.sqrt(args[0]), of="Linear")


def test_linear_is_drawn_in_half_precision(student, rng):
    """A bfloat16 or float16 weight has the same std and the same bounds, up to its own rounding."""
    (i,) = sizes(rng, 1, 100, 400)
    std = 1 / math.sqrt(i)
    for dtype in (torch.bfloat16, torch.float16):
        args = (i, 100_000 // i)
        got = student.run(probes.module, kind="Linear", args=args, dtype=dtype)
        z = weight_of(got, args, dtype=dtype).double() / std
        inside = z.abs().max().item() <= 3 * (1 + torch.finfo(dtype).eps)
        expect.that(inside, "an entry lies beyond 3 standard deviations", of="Linear", hint="bounds in units of std")
        # Drawing in few bits shifts the std by under 1 %; 100,000 draws by under 2 %.
        check_std(z, 0.04, of="Linear")


def test_two_modules_are_drawn_anew(student, rng):
    """Two layers of one size, made one after the other, have different weights."""
    i, o = sizes(rng, 2, 6, 12)
    for kind, args in [("Linear", (i, o)), ("MLP", ((i, o, i),))]:
        first, second = student.run(probes.pair, kind=kind, args=args)
        finite = all(bool(w.isfinite().all()) for w in [*first, *second])
        expect.that(finite, "a weight is NaN or infinite", of=kind)
        same = any(torch.equal(a, b) for a in first for b in second)
        expect.that(not same, "two modules start with the same weights", of=kind, hint="who sets the seed?")


# Stays: an MLP of Linears shares what is wrong with Linear's gradients, and only this test says whose fault it is.
def test_linear_gradients(student, rng):
    """Gradients reach the weight and the input, and the input is left as it was."""
    i, o = sizes(rng, 2)
    x = torch.randn(3, 2, i, generator=rng, dtype=torch.float64)
    upstream = torch.randn(3, 2, o, generator=rng, dtype=torch.float64)
    check_gradients(student, "Linear", (i, o), [i, o], x, upstream)


def test_mlp_gradients(student, rng):
    """Gradients reach every weight of an MLP and its input, and the input is left as it was."""
    dims = sizes(rng, 4)
    x = torch.randn(6, dims[0], generator=rng, dtype=torch.float64)
    upstream = torch.randn(6, dims[-1], generator=rng, dtype=torch.float64)
    check_gradients(student, "MLP", (tuple(dims),), dims, x, upstream)


def check_gradients(student, kind, args, dims, x, upstream):
    """The gradients are those of F.linear and relu: sums of few terms of order 1, which float64 has right to 1e-11."""
    got = student.run(probes.gradients, kind=kind, args=args, x=x, upstream=upstream, dtype=torch.float64)
    weights = layer_weights([w.clone() for w in got["weights"]], dims, of=kind, dtype=torch.float64)
    weights = [w.requires_grad_() for w in weights]
    gradients = dict(zip([tuple(w.shape) for w in got["weights"]], got["weight_gradients"], strict=True))
    expect.tensor(got["x"], x, of=f"{kind}.forward", name="x after the call", hint="nothing in place on x")
    x = x.clone().requires_grad_()
    output = relu_stack(x, weights)
    output.backward(upstream)
    expect.tensor(got["output"], output.detach(), of=f"{kind}.forward", atol=1e-11)
    hint = "use the parameters themselves, without .data or .detach()"
    for which, gradient, expected in [
        ("x", got["x_gradient"], x.grad),
        *(("a weight", gradients[tuple(w.shape)], w.grad) for w in weights),
    ]:
        expect.that(gradient is not None, f"no gradient reaches {which}", of=f"{kind}.forward", hint=hint)
        expect.tensor(gradient, expected, of=f"{kind}.forward", atol=1e-11, name=f"gradient of {which}", hint=hint)


def test_modules_can_be_moved(student, rng):
    """After `.to(torch.float64)` a module computes in float64 with all of its weights."""
    dims = sizes(rng, 3)
    x = torch.randn(5, dims[0], generator=rng, dtype=torch.float64)
    for kind, args, ends in [("Linear", (dims[0], dims[-1]), [dims[0], dims[-1]]), ("MLP", (tuple(dims),), dims)]:
        got = student.run(probes.module, kind=kind, args=args, x=x, to=torch.float64)
        weights = layer_weights(got["weights"], ends, of=kind, dtype=torch.float64)
        hint = "is every weight a registered parameter, and used as it is?"
        expect.tensor(got["output"], relu_stack(x, weights), of=f"{kind}.forward", atol=1e-11, hint=hint)


def test_linear_refuses_wrong_sizes(student):
    """A size below 1 is a ValueError that names it."""
    student.run(probes.module, kind="Linear", args=(1, 1))
    for size in (0, -2):
        for args, name in [((size, 3), "in_features"), ((3, size), "out_features")]:
            with expect.raises(ValueError, of="Linear", when=f"{name} is below 1", naming=name):
                student.run(probes.module, kind="Linear", args=args)


def test_linear_refuses_an_input_that_does_not_fit(student, rng):
    """An input whose last dimension is not in_features is an error, torch's own included."""
    i, o = sizes(rng, 2)
    errors = (ValueError, RuntimeError)
    student.run(probes.module, kind="Linear", args=(i, o), x=torch.randn(4, i, generator=rng))
    for shape in [(4, i + 1), (i + 2,), (i, 2 * i)]:
        with expect.raises(errors, of="Linear.forward", when="x's last dimension is not in_features"):
            student.run(probes.module, kind="Linear", args=(i, o), x=torch.randn(shape, generator=rng))


def test_mlp_has_one_weight_a_layer(student, rng):
    """An MLP of n + 1 sizes has n trainable weights and no biases, and leaves the list of sizes as it was."""
    for count in (2, 3, 5):
        dims = sizes(rng, count)
        got = student.run(probes.module, kind="MLP", args=(list(dims),))
        layer_weights(got["weights"], dims)
        expect.value(got["trainable"], [True] * (count - 1), of="MLP")
        expect.value(len(got["state"]), count - 1, of="MLP", hint="only weights are saved")
        expect.value(got["args"], [dims], of="MLP", hint="is dims changed?")


def test_mlp_has_relus_between_its_layers(student, rng):
    """A ReLU follows every layer but the last, for any leading dimensions."""
    for count, leading in [(3, (40,)), (4, (20, 3)), (5, (2, 3, 8)), (3, ()), (6, (40,))]:
        dims = sizes(rng, count, 3, 12)
        x = torch.randn(*leading, dims[0], generator=rng, dtype=torch.float64)
        got = student.run(probes.module, kind="MLP", args=(tuple(dims),), x=x, dtype=torch.float64)
        weights = layer_weights(got["weights"], dims, dtype=torch.float64)
        hint = "ReLU between the layers, none after the last"
        # Five sums of at most twelve products of order 1: rounding stays below 1e-13.
        expect.tensor(got["output"], relu_stack(x, weights), of="MLP.forward", atol=1e-11, hint=hint)


def test_mlp_of_one_layer_is_linear(student, rng):
    """An MLP of two sizes is one layer and has no ReLU."""
    dims = sizes(rng, 2)
    x = torch.randn(50, dims[0], generator=rng, dtype=torch.float64)
    got = student.run(probes.module, kind="MLP", args=(tuple(dims),), x=x, dtype=torch.float64)
    (weight,) = layer_weights(got["weights"], dims, dtype=torch.float64)
    expect.tensor(got["output"], F.linear(x, weight), of="MLP.forward", atol=1e-11, hint="none after the last layer")


def test_mlp_layers_share_nothing(student, rng):
    """Layers of one size are separate parameters with separate values."""
    (size,) = sizes(rng, 1)
    got = student.run(probes.module, kind="MLP", args=([size] * 5,))
    hint = "make a new layer for each place"
    count = len(got["weights"])
    expect.that(count == 4, f"{count} parameters for 4 layers", of="MLP", hint=hint)
    same = any(torch.equal(a, b) for a, b in itertools.combinations(got["weights"], 2))
    expect.that(not same, "two layers start with the same weight", of="MLP", hint=hint)


def test_mlp_layers_are_drawn_like_linear(student, rng):
    """Each layer's std is 1/sqrt of its own input size, truncated at ±3 std."""
    a, b = sizes(rng, 2, 100, 300)
    dims = [a, 60_000 // a, b, 2]
    got = student.run(probes.module, kind="MLP", args=(tuple(dims),))
    weights = layer_weights(got["weights"], dims)
    for weight in weights[:2]:
        check_truncated_normal(weight, 1 / math.sqrt(weight.shape[1]), of="MLP")


def test_mlp_lives_where_it_is_wanted(student, rng):
    """An MLP hands device= and dtype= on to each of its layers."""
    dims = sizes(rng, 4)
    for device, dtype in [("meta", torch.float32), ("cpu", torch.bfloat16), ("meta", torch.float64)]:
        got = student.run(probes.module, kind="MLP", args=(tuple(dims),), device=device, dtype=dtype)
        layer_weights(got["weights"], dims, dtype=dtype, device=device)
    x = torch.zeros(3, dims[0], dtype=torch.bfloat16)
    got = student.run(probes.module, kind="MLP", args=(tuple(dims),), x=x, dtype=torch.bfloat16)
    expect.tensor(got["output"], torch.zeros(3, dims[-1], dtype=torch.bfloat16), of="MLP.forward")


def test_mlp_refuses_wrong_sizes(student):
    """Fewer than two sizes is a ValueError that names `dims`, and a size below 1 is a ValueError."""
    student.run(probes.module, kind="MLP", args=((1, 1),))
    for dims in [(), (3,)]:
        with expect.raises(ValueError, of="MLP", when="dims has fewer than two entries", naming="dims"):
            student.run(probes.module, kind="MLP", args=(tuple(dims),))
    for dims in [(3, 0, 2), (0, 2), (3, -1)]:
        with expect.raises(ValueError, of="MLP", when="an entry of dims is below 1"):
            student.run(probes.module, kind="MLP", args=(tuple(dims),))


def check_counts(student, expected, expected_trainable, *, hint, **tree):
    """count_parameters of a module with these parameters, of all of them and of those that are trainable."""
    got = student.run(probes.counts, **tree)
    expect.value(got["all"], expected, of="count_parameters", hint=hint)
    expect.value(got["trainable"], expected_trainable, of="count_parameters", hint=hint)


def test_count_parameters_counts_elements(student, rng):
    """Every parameter counts with all of its elements, those of submodules too; a scalar is one."""
    a, b, c = sizes(rng, 3)
    parameters = {"w": [a, b], "block.w": [c], "block.inner.w": [a, b, c], "gain": [], "none": [a, 0]}
    total = a * b + c + a * b * c + 1
    check_counts(student, total, total, hint="elements, not tensors", parameters=parameters)
    check_counts(student, 0, 0, hint="a module without parameters has 0", parameters={})


def test_count_parameters_counts_a_tied_parameter_once(student, rng):
    """One parameter under several names counts once; equal values in separate parameters count each."""
    a, b = sizes(rng, 2)
    tree = {"parameters": {"embed.w": [a, b], "twin.w": [a, b]}, "ties": {"head.w": "embed.w", "deep.er.w": "embed.w"}}
    check_counts(student, 2 * a * b, 2 * a * b, hint="is a tied parameter counted twice, or an equal one not?", **tree)


def test_count_parameters_ignores_buffers(student, rng):
    """Buffers, such as running means, are no parameters."""
    a, b = sizes(rng, 2)
    buffers = {"mean": [b], "block.mask": [b, b]}
    check_counts(student, a * b, a * b, hint="buffers are counted", parameters={"w": [a, b]}, buffers=buffers)


def test_count_parameters_of_a_frozen_part(student, rng):
    """With trainable_only a frozen parameter is left out, tied or not; without it, it is counted."""
    a, b, c = sizes(rng, 3)
    tree = {"parameters": {"w": [a, b], "block.w": [b, c], "gain": [c]}, "frozen": ["block.w"]}
    total = a * b + b * c + c
    check_counts(student, total, a * b + c, hint="requires_grad says what is trainable", **tree)
    tree["ties"] = {"head.w": "block.w", "tail.w": "w"}
    check_counts(student, total, a * b + c, hint="a tied parameter once, and not if it is frozen", **tree)


def test_count_parameters_of_a_module_without_memory(student, rng):
    """On the meta device every parameter counts as well, exactly and past 2**53."""
    a, b = sizes(rng, 2)
    parameters = {"w": [a, b], "v": [a, b], "huge": [2**30 + 1, 2**25 + 1]}
    total = 2 * a * b + (2**30 + 1) * (2**25 + 1)
    hint = "meta tensors have no address, so tell parameters apart by identity"
    check_counts(student, total, total, hint=hint, parameters=parameters, device="meta")
