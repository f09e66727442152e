"""activation_checkpointing: what is counted, what is kept, and gradients equal to a plain run's.

Accepted on purpose: an autograd.Function or hooks on saved tensors; parameters' gradients only
through .backward(), as from an autograd.Function; inputs kept in any way that copies nothing; a
result that requires a gradient although nothing else does; any names in a state_dict; longer
segments first, last or in between.

What is kept is measured by which storages are alive after the forward pass, not by the student's
own count. The oracles are closed forms for bytes, and plain float64 runs of the same functions for
gradients. Each mistake costs points once: only one test judges the values of the gradients, and the
others ask which gradients exist; a CheckpointedSequential may have the gradients of the student's
own `checkpoint`, called manually for each segment.
"""

import itertools

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from kit import expect
from tests.probes import activation_checkpointing as probes

# A few nested sums of fewer than 100 terms of order 1, whose float64 error is below 1e-11.
ATOL = 1e-11


def sizes(rng, count, low=3, high=11):
    """Distinct sizes, so that no two dimensions can be confused."""
    return (low + torch.randperm(high - low, generator=rng)[:count]).tolist()


def random(rng, *shape, dtype=torch.float64):
    """Draw numbers between 0.5 and 1.5, so none is 0."""
    return (torch.rand(shape, generator=rng, dtype=torch.float64) + 0.5).to(dtype)


def check_bytes(student, save, x, y, expected, *, hint, **options):
    got = student.run(probes.saved_bytes, save=save, x=x, y=y, **options)
    check_count(got, expected, hint=hint)
    return got


def check_count(got, expected, *, hint):
    of = "saved_activation_bytes"
    expect.value(got["result"], expected, of=of, name="the bytes", hint=hint)


def check_gradients(got, expected, *, of, hint=None, tolerance=ATOL):
    """Check output and gradients against the plain run, including which gradients exist."""
    expect.tensor(got["output"], expected["output"], of=of, atol=ATOL, name="the output")
    for kind, gradient, want in check_which_gradients(got, expected, of=of, hint=hint):
        expect.tensor(
            gradient,
            want,
            of=of,
            atol=tolerance,
            name=f"the gradient of one of the {kind}s",
            hint=hint,
        )


def check_which_gradients(got, expected, *, of, hint=None):
    """Check that the same gradients exist as in the plain run, and return those that do."""
    found = []
    for kind in ("input", "parameter"):
        for gradient, want in zip(
            got[f"{kind}_gradients"], expected[f"{kind}_gradients"], strict=True
        ):
            if want is None:
                expect.that(
                    gradient is None, f"a gradient of an {kind} that does not require one", of=of
                )
            else:
                expect.that(
                    gradient is not None and bool(gradient.any()),
                    f"no gradient reaches the {kind}s",
                    of=of,
                    hint=hint,
                )
                found.append((kind, gradient, want))
    return found


def a_result(got, like, *, of):
    """Check that the output is a finite tensor of this shape and dtype, and return it."""
    expect.kind(got, torch.Tensor, of=of, name="the output")
    expect.value(tuple(got.shape), tuple(like.shape), of=of, name="the output's shape")
    expect.value(got.dtype, like.dtype, of=of, name="the output's dtype")
    plain_numbers = (
        got.device.type == "cpu" and got.layout == torch.strided and bool(got.isfinite().all())
    )
    expect.that(plain_numbers, "the output is not a plain tensor of finite numbers", of=of)
    return got


def check_called_again(calls):
    """Check that fn was called again.

    Without a second call, the test has nothing to judge: a plain call of fn is not a checkpoint.
    """
    expect.that(calls >= 2, "fn is not called again in the backward pass", of="checkpoint")


def random_function(rng):
    """Inputs for `probes.gradients`."""
    batch, d, h, rows = sizes(rng, 4)
    return {
        "x": random(rng, batch, d) - 1,
        "y": random(rng, rows, d),
        "ids": torch.randint(0, rows, (batch,), generator=rng),
        "parameters": [random(rng, d, h) - 1, random(rng, h, d) - 1],
        "upstream": random(rng, batch, d),
    }


def plain(fn, *inputs):
    return fn(*inputs)


# --- saved_activation_bytes


# Stays: the other tests count special cases only.
@pytest.mark.core
@pytest.mark.points(8)
def test_counts_what_operations_keep(student, rng):
    """exp keeps its result, sin its input, a product its factors, and a sum nothing.

    Each kept tensor counts with the bytes of its own dtype.
    """
    n, m = sizes(rng, 2)
    cases, checks = [], []
    for dtype, size in [(torch.float32, 4), (torch.float64, 8), (torch.bfloat16, 2)]:
        x, y = random(rng, n, m, dtype=dtype), random(rng, n, m, dtype=dtype)
        for save, tensors in [
            ("exp x", 1),
            ("sin x", 1),
            ("sin x, sin y", 2),
            ("gelu of x·y", 3),
            ("x + y", 0),
        ]:
            hint = (
                "saved_tensors_hooks shows each tensor that an operation saves: how many "
                "bytes does it have?"
            )
            cases.append({"save": save, "x": x, "y": y})
            checks.append((tensors * n * m * size, hint))
    size = x.element_size()
    for save, expected in [
        ("x where y is above 1", n * m),
        ("rows of x by number", n * 8),
        ("sin of a parameter", n * m * size),
    ]:
        hint = "a mask or the numbers of rows have a dtype of their own; a parameter is a tensor"
        cases.append({"save": save, "x": x, "y": y})
        checks.append((expected, hint))
    results = student.run(probes.saved_bytes_of_each, cases=cases)
    for got, (expected, hint) in zip(results, checks, strict=True):
        check_count(got, expected, hint=hint)


# Stays: chapter 12 derives this sum, and students compare their own results with it.
@pytest.mark.core
@pytest.mark.points(4)
def test_counts_layers(student, rng):
    """L layers keep L weights plus 2L activations with GELU, or L + 1 with ReLU.

    The result of a ReLU is the tensor that the next layer keeps, so it counts once.
    """
    batch, d, count = sizes(rng, 3)
    x = random(rng, batch, d, dtype=torch.float32)
    for activation, activations in [("GELU", 2 * count), ("ReLU", count + 1)]:
        got = student.run(probes.saved_bytes_of_layers, activation=activation, x=x, layers=count)
        hint = "what does each layer keep, and do some of these tensors share a storage?"
        expected = (activations * batch * d + count * d * d) * 4
        expect.value(got, expected, of="saved_activation_bytes", name="the bytes", hint=hint)


@pytest.mark.core
@pytest.mark.points(6)
def test_counts_a_storage_once(student, rng):
    """A storage counts once and with its full size, even if several operations save views of it."""
    n, m = sizes(rng, 2)
    x, y = random(rng, n, m, dtype=torch.float32), random(rng, n, m, dtype=torch.float32)
    for save, tensors in [
        ("sin x, cos x, x·x", 1),
        ("sin of views of x", 1),
        ("sin of a row of x", 1),
        ("sin of a parameter that is a row of x", 1),
        ("an expanded row of x, times y", 2),
        ("exp of sin x", 2),
    ]:
        hint = "compare storages, not tensors; a view keeps its whole storage alive"
        check_bytes(student, save, x, y, tensors * n * m * 4, hint=hint)


# Stays: it shows that equal values are mistaken for a shared storage; other tests show a count.
@pytest.mark.points(2)
def test_counts_equal_tensors_apart(student, rng):
    """Two storages of the same size with the same values count twice."""
    x = random(rng, *sizes(rng, 2), dtype=torch.float32)
    check_bytes(
        student,
        "sin x, sin y",
        x,
        x.clone(),
        2 * x.numel() * 4,
        hint="which two tensors share a storage?",
    )


@pytest.mark.points(2)
def test_counts_on_the_meta_device(student, rng):
    """Meta tensors count with their storage's size, so a huge model can be measured."""
    (count,) = sizes(rng, 1)
    x = torch.empty(2**17, 2**13, device="meta")
    given = {"activation": "GELU", "x": x, "layers": count, "on_meta": True}
    hint, of = "all meta tensors have the address 0", "saved_activation_bytes"
    for all_counted, of_weights in [(True, 2**26), (False, 0)]:
        got = student.run(probes.saved_bytes_of_layers, all_counted=all_counted, **given)
        expected = count * (2 * 2**30 + of_weights) * 4
        expect.value(got, expected, of=of, name="the bytes", hint=hint)


@pytest.mark.core
@pytest.mark.points(6)
def test_leaves_out_what_is_excluded(student, rng):
    """Storages of the excluded tensors, given as any iterable, are left out; all others count."""
    n, m = sizes(rng, 2)
    x, y = random(rng, n, m, dtype=torch.float32), random(rng, n, m, dtype=torch.float32)
    for save, exclude, tensors in [
        ("sin x, sin y", ["x"], 1),
        ("sin x, sin y", ["x", "y"], 0),
        ("sin x, sin y", [], 2),
        ("gelu of x·y", ["y"], 2),
        ("sin of a row of x", ["y"], 1),
        ("exp x", ["x", "y"], 1),
    ]:
        hint = "do you iterate over exclude only once, and compare by storage?"
        check_bytes(student, save, x, y, tensors * n * m * 4, exclude=exclude, hint=hint)


@pytest.mark.points(1)
def test_leaves_out_excluded_tensors_of_any_kind(student, rng):
    """Excluded tensors may have any shape, dtype and values, and be in a list or a tuple.

    The next call does not exclude them.
    """
    n, m = sizes(rng, 2)
    hint = "only the storage of an excluded tensor matters"
    cases, checks = [], []
    for shape, dtype, scale in [
        ((), torch.float64, 1.0),
        ((n,), torch.bfloat16, 1.0),
        ((n, 1, m), torch.float16, 1.0),
        ((n, m), torch.float32, 0.0),
        ((n, m), torch.float64, 1e6),
        ((n, m), torch.float64, 1e-9),
    ]:
        x, y = ((random(rng, *shape) * scale).to(dtype) for _ in range(2))
        for exclude, kind, tensors in [
            (["x", "x"], "list", 1),
            (["y", "x repeated"], "tuple", 0),
            ([], "tuple", 2),
        ]:
            size = x.numel() * x.element_size()
            given = {"save": "sin x, sin y", "x": x, "y": y}
            cases.append({**given, "exclude": exclude, "kind": kind})
            checks.append((tensors * size, 2 * size))
    results = student.run(probes.saved_bytes_of_each, cases=cases)
    for got, (expected, without) in zip(results, checks, strict=True):
        check_count(got, expected, hint=hint)
        expect.value(
            got["result_again"],
            without,
            of="saved_activation_bytes",
            name="the bytes in a second call, without exclude",
            hint="does something stay from the first call?",
        )


@pytest.mark.points(4)
def test_leaves_out_views_of_what_is_excluded(student, rng):
    """A view counts as its storage, whether it is saved or excluded."""
    n, m = sizes(rng, 2)
    x, y = random(rng, n, m, dtype=torch.float32), random(rng, n, m, dtype=torch.float32)
    for save, exclude, tensors in [
        ("sin of views of x", ["x"], 0),
        ("sin of a row of x", ["x transposed"], 0),
        ("sin x, sin y", ["a row of x"], 1),
    ]:
        hint = "a linear layer saves the view W.T: compare storages"
        check_bytes(student, save, x, y, tensors * n * m * 4, exclude=exclude, hint=hint)


@pytest.mark.points(1)
def test_the_function_may_take_gradients(student, rng):
    """fn may run its own backward pass. What is saved counts, whether or not it is freed then."""
    n, m = sizes(rng, 2)
    x = random(rng, n, m, dtype=torch.float32)
    hint = "a backward pass receives what pack returned"
    check_bytes(student, "exp x times its gradient", x, x, 2 * n * m * 4, hint=hint)
    hint = "what a backward pass inside fn frees was saved, too; are addresses used again?"
    x = random(rng, 25, 40, dtype=torch.float32)  # for a smaller x, new memory is found
    check_bytes(student, "exp x and its gradient, 64 times", x, x, 64 * 25 * 40 * 4, hint=hint)


@pytest.mark.points(2)
def test_counts_nothing_where_there_is_no_backward_pass(student, rng):
    """If gradients are disabled, or no tensor requires one, nothing is kept: 0 bytes."""
    x, y = random(rng, 4, 3, dtype=torch.float32), random(rng, 4, 3, dtype=torch.float32)
    hint = "count only what autograd saves, not everything that the forward pass computes"
    check_bytes(student, "gelu of x·y", x, y, 3 * 12 * 4, hint=hint)
    for options in ({"grad_enabled": False}, {"requires_grad": False}):
        check_bytes(student, "gelu of x·y", x, y, 0, hint=hint, **options)


@pytest.mark.points(2)
def test_calls_the_function_once(student, rng):
    """fn is called once, and no backward pass runs: gradients stay None.

    A second count gives the same.
    """
    x, y = random(rng, 4, 3, dtype=torch.float32), random(rng, 4, 3, dtype=torch.float32)
    got = check_bytes(student, "sin x", x, y, 12 * 4, hint=None)
    name, hint = "the bytes in a second count", "does something stay from the first count?"
    of = "saved_activation_bytes"
    expect.value(got["result_again"], 12 * 4, of=of, name=name, hint=hint)
    expect.value(got["calls"], 1, of="saved_activation_bytes", name="the number of calls of fn")
    expect.that(
        not got["leaves_gradients"],
        "a gradient is left behind",
        of="saved_activation_bytes",
        hint="does the count need a backward pass?",
    )


# --- checkpoint


# Stays: without it, other tests would judge the gradients only in special cases.
@pytest.mark.core
@pytest.mark.points(12)
def test_output_and_gradients_are_those_of_the_function(student, rng):
    """Output and gradients, of inputs and of fn's parameters, are those of a plain run."""
    calls = [
        ((True, True), 1.0),
        ((True, False), 1.0),
        ((False, True), 1.0),
        *(((True, True), s) for s in (1e-8, 1e-4, 1e4)),
    ]
    for requires_grad, scale in calls:
        inputs = {**random_function(rng), "requires_grad": requires_grad}
        inputs["upstream"] = inputs["upstream"] * scale
        expected = probes.gradients_of(plain, **inputs)
        got = student.run(probes.gradients, **inputs)
        hint = (
            "in the backward pass, run fn with gradients enabled, then call backward with "
            "the unchanged upstream gradient"
        )
        check_gradients(got, expected, of="checkpoint", hint=hint, tolerance=ATOL * max(1.0, scale))
        check_called_again(got["calls"])


# Stays: the test of frozen first layers checks the same case, but for CheckpointedSequential.
@pytest.mark.points(4)
def test_parameters_get_gradients_where_no_input_requires_one(student, rng):
    """fn's parameters get their gradients even if none of the inputs requires one."""
    inputs = {**random_function(rng), "requires_grad": (False, False)}
    expected = probes.gradients_of(plain, **inputs)
    got = student.run(probes.gradients, **inputs)
    a_result(got["output"], expected["output"], of="checkpoint")
    hint = "an autograd.Function has no backward pass if none of its inputs requires a gradient"
    for _, gradient, _ in check_which_gradients(got, expected, of="checkpoint", hint=hint):
        changed = not torch.equal(gradient, torch.ones_like(gradient))  # .grad was 1 before
        expect.that(changed, "no gradient reaches the parameters", of="checkpoint", hint=hint)
    check_called_again(got["calls"])


@pytest.mark.points(2)
def test_inputs_may_be_any_tensors(student, rng):
    """Inputs may be any tensors that are not complex, and fn may return one, or take none."""
    n, m = sizes(rng, 2, 3, 7)
    few = [torch.randint(1, 4, (n, m), generator=rng).double() for _ in range(2)]
    row = few[0][:1]
    upstream = torch.randint(1, 3, (n, m), generator=rng).double()
    a, b = few
    calls = [
        ("p·a²·b", [a[0, 0], b[0, 0]]),
        ("p·a²·b", [a[None, :, None], b[None, :, None]]),
        ("p·a²·b", [a[:0], b[:0]]),
        ("p·a²·b", [row.expand(n, m), few[1].T.contiguous().T]),
        ("p·a²·b", [torch.stack([a, b], -1)[..., 1], 0 * b]),
        ("p·a²·b", [a * 2**20, b * 2**-20]),
        *(("p·a²·b", [a.to(t), b.to(t)]) for t in (torch.float32, torch.bfloat16, torch.float16)),
        ("p·a²·b", [a, b.to(torch.uint8)]),
        ("p·a²·b", [a, b > 1]),
        ("p·a²·b", [a.float(), b]),
        ("a itself", [a, b]),
        ("a view of a", [a, b]),
        ("p²", []),
    ]
    cases = []
    for function, inputs in calls:
        like = probes.FUNCTIONS[function](torch.ones((), dtype=a.dtype), *inputs)
        dtype = like.dtype
        given = {"function": function, "inputs": inputs}
        given["upstream"] = upstream.flatten()[: like.numel()].view(like.shape).to(dtype)
        cases.append(given)
    # Zeros are a gradient of what does not depend on a; so is none.
    cases.append({"function": "2a, detached", "inputs": [a, b], "upstream": upstream})
    *results, got = student.run(probes.gradients_of_each, cases=cases)
    for given, of_given in zip(cases, results, strict=False):
        check_exact(of_given, probes.gradients_of_one_of(plain, **given))
        if not given["inputs"]:
            check_called_again(of_given["calls"])
    expect.tensor(got["output"], 2 * a, of="checkpoint", name="the output")
    some = [g for g in got["input_gradients"] if g is not None and bool(g.any())]
    expect.that(not some, "a gradient reaches an input that was detached", of="checkpoint")


def check_exact(got, expected):
    """Check output and gradients of numbers of so few bits that nothing is rounded."""
    of, hint = "checkpoint", "give fn the same inputs again, and pass on the gradients it gets"
    expect.tensor(got["output"], expected["output"], of=of, name="the output")
    for kind in ("input", "parameter"):
        gradients = zip(got[f"{kind}_gradients"], expected[f"{kind}_gradients"], strict=True)
        for gradient, want in gradients:
            name = f"the gradient of one of the {kind}s"
            if want is None:
                expect.that(gradient is None, f"{name} that does not require one", of=of)
                continue
            # A parameter's gradient is a sum, which half precision rounds.
            atol = torch.finfo(want.dtype).eps * 1000 if kind == "parameter" else 0.0
            expect.tensor(gradient, want, of=of, atol=atol, name=name, hint=hint)


# Stays: with only one input, as in a segment, a copy of the other inputs would go unnoticed.
@pytest.mark.core
@pytest.mark.points(12)
def test_keeps_its_inputs_only(student, rng):
    """Between forward and backward only fn's inputs and result are kept, without copies."""
    n, d = sizes(rng, 2, 20, 40)
    x, weight = random(rng, n, d), random(rng, d, d) / d
    got = student.run(probes.bytes_kept, x=x, weight=weight)
    expected = expected_of_bytes_kept(x, weight)
    expect.tensor(got["output"], expected, of="checkpoint", atol=ATOL, name="the output")
    expect.that(got["requires_grad"], "the result does not require a gradient", of="checkpoint")
    reason = (
        f"{got['bytes'] / (n * d * 8):.3g} times the bytes of an input are kept in "
        "addition to the inputs"
    )
    hint = "if gradients are enabled, the first call of fn keeps its activations"
    expect.that(got["bytes"] == 0, reason, of="checkpoint", hint=hint)


@pytest.mark.points(1)
def test_does_not_keep_its_result(student, rng):
    """The result is alive for as long as the caller needs it, and no longer.

    Inputs of another memory layout are not copied either.
    """
    n, d = sizes(rng, 2, 20, 40)
    x, weight = random(rng, n, d), random(rng, d, d) / d
    kept = student.run(probes.bytes_kept, x=x, weight=weight)
    output = a_result(kept["output"], x, of="checkpoint")
    expected = expected_of_bytes_kept(x, weight)
    expect.tensor(output, expected, of="checkpoint", atol=ATOL, name="the output")
    got = student.run(probes.bytes_kept, x=x, weight=weight, summed=True)
    expect.that(got["requires_grad"], "the result does not require a gradient", of="checkpoint")
    hint, reason = "save the inputs, not the result", "the result is kept for the backward pass"
    expect.that(got["bytes"] <= kept["bytes"], reason, of="checkpoint", hint=hint)
    got = student.run(probes.bytes_kept, x=x, weight=weight, transposed=True)
    reason, hint = "more is kept of a transposed input", "save the inputs, not copies of them"
    expect.that(got["bytes"] <= kept["bytes"], reason, of="checkpoint", hint=hint)


def expected_of_bytes_kept(x, weight):
    """The output in `probes.bytes_kept`."""
    return F.silu(F.gelu(x @ weight) * x.sin().sin() @ weight).sin()


# Stays: only this test checks when the second call comes, and with which inputs.
@pytest.mark.core
@pytest.mark.points(4)
def test_calls_the_function_again_in_the_backward_pass(student, rng):
    """fn is called once in the forward pass and once in the backward pass, with the same inputs."""
    x = random(rng, *sizes(rng, 2))
    got = student.run(probes.calls, x=x, upstream=random(rng, *x.shape))
    name = "the number of calls of fn after the {} pass"
    expect.value(got["after_forward"], 1, of="checkpoint", name=name.format("forward"))
    hint = "call it once more in the backward pass, and only there"
    expect.value(got["after_backward"], 2, of="checkpoint", name=name.format("backward"), hint=hint)
    expect.parts(got["inputs"], 2, of="checkpoint", name="inputs of fn")
    for z in got["inputs"]:
        expect.tensor(z, x, of="checkpoint", name="fn's input")


@pytest.mark.core
@pytest.mark.points(8)
def test_draws_the_same_random_numbers_again(student, rng):
    """In the backward pass dropout drops the same entries as in the forward pass."""
    x, of = random(rng, 12, 16), "checkpoint"
    cases = ({}, {"nested": True}, {"another": True}, {"module": True}, {"module": False})
    for options in cases:
        got = student.run(probes.dropped, x=x, upstream=random(rng, 12, 16), **options)
        kept = a_result(got["output"], x, of=of) != 0
        expect.tensor(got["output"], x.tanh() * kept * 2.0, of=of, atol=ATOL, name="the output")
        check_called_again(got["calls"])
        gradient, reason = got["gradient"], "no gradient reaches the input"
        expect.that(gradient is not None and gradient.shape == x.shape, reason, of=of)
        differ = int(((gradient != 0) != kept).sum())
        hint = "restore the state that torch's generator had before fn's first call"
        reason = f"{differ} of {x.numel()} entries are dropped in only one of the two calls"
        expect.that(differ == 0, reason, of=of, hint=hint)


@pytest.mark.points(2)
def test_leaves_the_random_state_as_it_was(student, rng):
    """After each pass torch's generator is in the same state as after a plain run."""
    x = random(rng, 6, 5)
    got = student.run(probes.dropped, x=x, upstream=x)
    check_called_again(got["calls"])
    expect.that(got["gradient"] is not None, "no gradient reaches the input", of="checkpoint")
    hint = "the first call must draw exactly as fn alone would: is a seed set before it?"
    reason = "the forward pass leaves torch's generator in a different state than fn alone does"
    expect.that(got["forward_draws_as_plain"], reason, of="checkpoint", hint=hint)
    hint = "which state did the generator have before the second call of fn?"
    expect.that(
        got["random_state_is_as_before"],
        "the backward pass changes the state of torch's generator",
        of="checkpoint",
        hint=hint,
    )


@pytest.mark.points(2)
def test_without_gradients_it_just_calls_the_function(student, rng):
    """Under no_grad or inference_mode checkpoint only calls fn once, and keeps nothing.

    The result does not require a gradient.
    """
    n, d = sizes(rng, 2)
    x, weight = random(rng, n, d), random(rng, d, d)
    for inference in (False, True):
        got = student.run(probes.without_gradients, x=x, weight=weight, inference=inference)
        expect.tensor(got["output"], x @ weight, of="checkpoint", atol=ATOL, name="the output")
        expect.value(got["calls"], 1, of="checkpoint", name="the number of calls of fn")
        hint = "does something enable gradients that were disabled?"
        expect.that(
            not got["requires_grad"],
            "the result requires a gradient under no_grad",
            of="checkpoint",
            hint=hint,
        )
    kept = student.run(probes.bytes_kept, x=x, weight=weight, grad_enabled=False)["bytes"]
    hint = "without a backward pass nothing has to be kept"
    expect.value(kept, 0, of="checkpoint", name="the bytes kept under no_grad", hint=hint)


@pytest.mark.points(2)
def test_runs_again_under_the_same_autocast(student, rng):
    """The second call runs under the first call's autocast, not under that of the backward pass."""
    x, weight = random(rng, 4, 3, dtype=torch.float32), random(rng, 3, 3, dtype=torch.float32)
    passes = [(True, False), (False, True), (True, True), (False, False)]
    for dtype, (forward, backward) in itertools.product((torch.bfloat16, torch.float16), passes):
        options = {"forward": forward, "backward": backward, "dtype": dtype}
        got = student.run(probes.autocast_dtypes, x=x, weight=weight, **options)
        check_called_again(len(got))
        expected = [dtype if forward else torch.float32] * len(got)
        hint = (
            "is autocast on in the forward pass, and with which dtype? Use the same for the "
            "second call"
        )
        expect.value(
            got, expected, of="checkpoint", name="the dtypes of a product in fn's calls", hint=hint
        )


# Stays: the other test of nested checkpoints would speak of random numbers.
@pytest.mark.points(2)
def test_checkpoints_inside_a_checkpoint(student, rng):
    """A function that checkpoints a part of itself, even twice, can itself be checkpointed.

    This keeps no more than if it checkpoints no part.
    """
    batch, d, h = sizes(rng, 3)
    inputs = {
        "x": random(rng, batch, d) - 1,
        "parameters": [random(rng, d, h) - 1, random(rng, h, d) - 1],
        "upstream": random(rng, batch, d),
    }
    expected = probes.nested_gradients_of(plain, **inputs)
    got = student.run(probes.nested_gradients, **inputs)
    check_gradients(
        got,
        expected,
        of="checkpoint",
        hint="does the inner checkpoint work inside the backward pass of the outer one?",
    )
    check_called_again(got["calls"])
    n, d = sizes(rng, 2, 20, 40)
    inputs = {"x": random(rng, n, d), "weight": random(rng, d, d) / d}
    plain_part = student.run(probes.bytes_kept, **inputs)["bytes"]
    got = student.run(probes.bytes_kept, **inputs, nested=True)["bytes"]
    reason = "a checkpoint inside a checkpoint keeps its inputs, which are activations"
    hint = "who holds the inner checkpoint's inputs between the passes of the outer one?"
    expect.that(got <= plain_part, reason, of="checkpoint", hint=hint)


# --- CheckpointedSequential


def random_layers(rng, order):
    """Inputs for `probes.sequential_gradients`."""
    n, d = sizes(rng, 2)
    return {
        "x": random(rng, n, d),
        "weights": [random(rng, d, d) - 1 for _ in range(max(order) + 1)],
        "order": order,
        "upstream": random(rng, n, d),
    }


# Stays: only this test checks the output of layers that differ.
@pytest.mark.core
@pytest.mark.points(8)
def test_layers_run_one_after_the_other(student, rng):
    """Output and gradients equal nn.Sequential's for any segments, even if a layer is repeated."""
    of, hint = "CheckpointedSequential", "run every layer once, in the given order"
    for order, segments, again in [
        ([0, 1, 2, 3], 2, False),
        ([0, 1, 0, 2], 4, False),
        ([0, 1, 2], 3, True),
        ([0, 1, 2], 1, False),
        ([0], 1, False),
    ]:
        inputs = {**random_layers(rng, order), "again": again}
        expected = probes.sequential_gradients_of(lambda layers: nn.Sequential(*layers), **inputs)
        got = student.run(probes.sequential_gradients, segments=segments, **inputs)
        expect.tensor(
            got["output"], expected["output"], of=of, atol=ATOL, name="the output", hint=hint
        )
        try:
            check_gradients(got, expected, of=of, hint=hint)
        except expect.Mismatch:
            del inputs["again"]
            own = student.run(probes.segments_by_hand, segments=segments, **inputs)
            check_which_gradients(own, expected, of="checkpoint")
            check_gradients(got, own, of=of, hint=hint)


# Stays: saving memory is the purpose of segments, and this test does not depend on when the layers
# run again.
@pytest.mark.core
@pytest.mark.points(8)
def test_segments_keep_their_inputs_only(student, rng):
    """After the forward pass only the inputs of the segments are alive, and no other activation."""
    n, d = sizes(rng, 2, 10, 20)
    x, weight = random(rng, n, d), random(rng, d, d)
    for count, segments in [(6, 1), (6, 3), (5, 5), (7, 2)]:
        got = student.run(
            probes.sequential_bytes_kept, x=x, weight=weight, count=count, segments=segments
        )
        kept = got / (n * d * 8)
        reason = (
            f"{kept:.3g} activations are kept in addition to the input and the output, "
            f"expected {segments - 1}"
        )
        hint = (
            "run each segment under checkpoint, the last one too; the first segment's input "
            "is the module's own"
        )
        expect.that(kept == segments - 1, reason, of="CheckpointedSequential", hint=hint)


@pytest.mark.points(1)
def test_segments_keep_their_inputs_only_in_any_mode(student, rng):
    """In eval mode, too, and if x requires no gradient, only the segments' inputs are kept."""
    n, d = sizes(rng, 2, 10, 20)
    x, weight = random(rng, n, d), random(rng, d, d)
    inputs = {"x": x, "weight": weight, "count": 6, "segments": 3}
    own = student.run(probes.sequential_bytes_kept, **inputs)
    expect.that(own >= x.numel() * 8, "nothing is kept", of="CheckpointedSequential")
    for options in (
        {"evaluates": True},
        {"requires_grad": False},
        {"frozen": True},
        {"repeated": True},
    ):
        got = student.run(probes.sequential_bytes_kept, **inputs, **options)
        hint = "a segment runs under checkpoint in every mode"
        reason = "something else is kept in eval mode, without gradients, or of a repeated layer"
        fits = got == own if options.get("repeated") else got <= own
        expect.that(fits, reason, of="CheckpointedSequential", hint=hint)


@pytest.mark.points(1)
def test_layers_take_any_input(student, rng):
    """x may have any shape, layout and dtype, and gradients may be disabled."""
    x = torch.randint(1, 4, (4, 6), generator=rng).double()
    cases = [x[0, 0], x[0], x[:, None, :1], x[:0], x.T, x[1:, ::2], x[:1].expand(3, 6)]
    cases += [0 * x, x * 2**20, x * 2**-20, x.float(), x.bfloat16(), x.half()]
    cases += [x.to(torch.complex64), x.to(torch.uint8), x.long(), x > 1]
    results = student.run(probes.run_each, xs=cases, count=4, segments=2)
    for given, outputs in zip(cases, results, strict=True):
        expect.that(len(outputs) == 2, "not every call returned", of="CheckpointedSequential")
        for got in outputs:
            expect.tensor(got, 16.0 * given, of="CheckpointedSequential", name="the output")


# Stays: the next test costs less, because it also catches lengths that are wrong for few pairs.
@pytest.mark.core
@pytest.mark.points(4)
def test_segments_are_nearly_equal(student, rng):
    """The layers form `segments` consecutive groups whose lengths differ by at most 1."""
    x, weight = random(rng, 2, 3), random(rng, 3, 3)
    for count, segments in [(7, 3), (8, 3), (9, 4), (6, 3), (5, 4), (4, 1), (10, 7)]:
        got = student.run(probes.layers, x=x, weight=weight, count=count, segments=segments)
        check_segments(got["forward"], got["backward"], count, segments)


def check_segments(forward, backward, count, segments):
    """Check the layers that the two passes run: all, in nearly equal segments."""
    of = "CheckpointedSequential"
    name, hint = "the layers that the forward pass runs", "run every layer once, in order"
    expect.value(forward, list(range(count)), of=of, name=name, hint=hint)
    # The backward pass runs the segments again, the last one first.
    runs: list[list[int]] = []
    for number in backward:
        if not runs or number < runs[-1][-1]:
            runs.append([])
        runs[-1].append(number)
    again = [number for run in reversed(runs) for number in run]
    name, hint = (
        "the layers that the backward pass runs",
        "run each layer once more in the backward pass",
    )
    expect.value(again, list(range(count)), of=of, name=name, hint=hint)
    expect.value(len(runs), segments, of=of, name="the number of segments")
    lengths = [len(run) for run in runs]
    hint = f"{count} layers in {segments} segments: how long is each segment?"
    near = max(lengths) - min(lengths) <= 1
    expect.that(near, "the lengths of the segments differ by more than one", of=of, hint=hint)


@pytest.mark.points(1)
def test_segments_of_any_number_of_layers(student):
    """Layers in any number of segments all run, in segments of nearly equal lengths."""
    pairs = [(count, segments) for count in range(1, 8) for segments in range(1, count + 1)]
    pairs += [(count, segments) for count in (11, 15) for segments in range(2, count, 3)]
    pairs += [(30, 11), (40, 7), (40, 39)]
    got = student.run(probes.layers_of_each, pairs=pairs)
    expect.that(len(got) == len(pairs), "not every module ran", of="CheckpointedSequential")
    for (forward, backward), (count, segments) in zip(got, pairs, strict=True):
        check_segments(list(forward), list(backward), count, segments)


# Stays: an optimizer without parameters trains nothing, which is worse than an extra name in a
# state_dict.
@pytest.mark.points(6)
def test_registers_its_layers(student, rng):
    """parameters() returns the layers' own parameters, and eval() reaches every layer."""
    got, _ = registered(student, rng)
    of, hint = "CheckpointedSequential", "nn.ModuleList registers the layers"
    expect.that(
        got["parameters_are_the_layers"],
        "parameters() are not the layers' own, in order",
        of=of,
        hint=hint,
    )
    expect.that(not got["some_train"], "a layer is in training mode after eval()", of=of, hint=hint)


@pytest.mark.points(1)
def test_registers_each_layer_once(student, rng):
    """state_dict() has each parameter and buffer of the layers under exactly one name.

    A deep copy of the module computes with its own.
    """
    got, count = registered(student, rng)
    reason = f"state_dict holds {got['state']} tensors, expected {count} weights and {count} biases"
    expect.that(
        got["state"] == 2 * count,
        reason,
        of="CheckpointedSequential",
        hint="is each layer registered exactly once?",
    )
    expect.tensor(
        got["output_of_zeros"],
        torch.zeros_like(got["output_in_eval"]),
        of="CheckpointedSequential",
        name="the output of a deep copy whose weights are all 0",
        hint="a function that is made in __init__ keeps the original's layers",
    )


def registered(student, rng):
    """Check that a CheckpointedSequential runs, and return what it registers.

    The second value is the number of layers that have parameters.
    """
    d, n = sizes(rng, 2)
    weights, x = [random(rng, d, d) for _ in range(3)], random(rng, n, d)
    got = student.run(probes.module, x=x, weights=weights)
    of = "CheckpointedSequential"
    own = a_result(got["output_in_eval"], x, of=of)
    name, hint = "the output if only a layer is in eval mode", "leave the modes of the layers alone"
    expect.tensor(got["output_with_one_in_eval"], own, of=of, atol=ATOL, name=name, hint=hint)
    return got, len(weights)


@pytest.mark.points(2)
def test_first_layers_may_be_frozen(student, rng):
    """If the input and the first layers require no gradient, the other layers still get theirs.

    A layer may have a hook, which runs when the layer is called.
    """
    of, hint = (
        "CheckpointedSequential",
        "does the result of a segment require a gradient, in the second call too?",
    )
    for frozen, segments in [(1, 4), (2, 2), (3, 2)]:
        inputs = {**random_layers(rng, [0, 1, 2, 3]), "frozen": frozen}
        expected = probes.sequential_gradients_of(lambda layers: nn.Sequential(*layers), **inputs)
        got = student.run(probes.sequential_gradients, segments=segments, **inputs)
        a_result(got["output"], expected["output"], of=of)
        check_which_gradients(got, expected, of=of, hint=hint)
    hooked = student.run(probes.sequential_gradients, segments=segments, hooked=True, **inputs)
    name, hint = "the output of layers of which the last has a hook", "layer(x) runs the hooks"
    expect.tensor(hooked["output"], 2 * got["output"], of=of, atol=ATOL, name=name, hint=hint)


@pytest.mark.points(1)
def test_refuses_more_segments_than_layers(student, rng):
    """More segments than layers raise a ValueError."""
    x = random(rng, 3)
    with expect.right_call("4 layers in 1 segment, and in 4"):
        for segments in (1, 4):
            got = student.run(probes.run_layers, x=x, count=4, segments=segments)
            expect.tensor(got, 16 * x, of="CheckpointedSequential", name="the output")
    for count, segments in [(4, 5), (1, 2)]:
        when = "segments is more than the number of layers"
        with expect.raises(ValueError, of="CheckpointedSequential", when=when):
            student.run(probes.run_layers, x=x, count=count, segments=segments)
