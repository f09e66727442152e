"""activation_checkpointing: what is counted, what is kept, and gradients that are those of a plain run.

Accepted on purpose: an autograd.Function or hooks on saved tensors; a count of what is saved while fn runs or of what is
still held when it has ended; parameters' gradients by .backward() alone, as an autograd.Function gives them (so
torch.autograd.grad of a parameter is not asked); inputs kept in any way that copies nothing; a state of a generator kept
for each call; a result that requires a gradient where nothing does; any names in a state_dict; longer segments first, last
or in between; whatever nested checkpoints keep. A second backward pass of one graph is not asked.

What is kept is measured by which storages are alive after the forward pass, not by the student's own count. Oracles are
closed forms for bytes, and for gradients the same functions run plainly, in float64. One mistake has one price: only one test
judges the gradients' values, the others ask which gradients there are; a CheckpointedSequential may have those of the student's
own `checkpoint`, called by hand for each segment.
"""

import pytest
import torch
from torch import nn

from tests import expect
from tests.probes import activation_checkpointing as probes

# Sums of fewer than 100 terms of order 1, a few of them one after the other, which float64 has right to 1e-11.
ATOL = 1e-11


def sizes(rng, count, low=3, high=11):
    """Distinct sizes, so that no two dimensions can be confused."""
    return (low + torch.randperm(high - low, generator=rng)[:count]).tolist()


def random(rng, *shape, dtype=torch.float64):
    """Numbers between 0.5 and 1.5, none of them 0."""
    return (torch.rand(*shape, generator=rng, dtype=torch.float64) + 0.5).to(dtype)


def check_bytes(student, save, x, y, expected, *, hint, **options):
    got = student.run(probes.saved_bytes, save=save, x=x, y=y, **options)
    expect.value(got["result"], expected, of="saved_activation_bytes", name="the bytes", hint=hint)
    return got


def check_gradients(got, expected, *, of, hint=None, tolerance=ATOL):
    """Output and gradients are those of the plain run, and there is a gradient exactly where that has one."""
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
    """There is a gradient where the plain run has one, and none where it has none; gives those that there are."""
    found = []
    for kind in ("input", "parameter"):
        for gradient, want in zip(
            got[f"{kind}_gradients"], expected[f"{kind}_gradients"], strict=True
        ):
            if want is None:
                expect.that(gradient is None, f"a gradient of an {kind} that requires none", of=of)
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
    """The output is a tensor of this shape and dtype with numbers in it, so that a test can go on with it."""
    expect.kind(got, torch.Tensor, of=of, name="the output")
    expect.value(tuple(got.shape), tuple(like.shape), of=of, name="the output's shape")
    expect.value(got.dtype, like.dtype, of=of, name="the output's dtype")
    plain_numbers = (
        got.device.type == "cpu" and got.layout == torch.strided and bool(got.isfinite().all())
    )
    expect.that(plain_numbers, "the output is not a plain tensor of finite numbers", of=of)
    return got


def check_called_again(calls):
    """fn was called again. If it was not, then nothing was asked of the second call, and a plain call is no checkpoint."""
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


@pytest.mark.core
@pytest.mark.points(8)
def test_counts_what_operations_keep(student, rng):
    """exp keeps its result, sin its input, a product its factors, a sum nothing, each in its own dtype."""
    n, m = sizes(rng, 2)
    for dtype, size in [(torch.float32, 4), (torch.float64, 8), (torch.bfloat16, 2)]:
        x, y = random(rng, n, m, dtype=dtype), random(rng, n, m, dtype=dtype)
        for save, tensors in [
            ("exp x", 1),
            ("sin x", 1),
            ("sin x, sin y", 2),
            ("gelu of x·y", 3),
            ("x + y", 0),
        ]:
            hint = "saved_tensors_hooks shows each tensor that an operation keeps: how many bytes is it?"
            check_bytes(student, save, x, y, tensors * n * m * size, hint=hint)


# Stays: it is the sum that chapter 12 is about, and the one that a student will compare with.
@pytest.mark.core
@pytest.mark.points(4)
def test_counts_layers(student, rng):
    """L layers keep L weights and, with a GELU, 2L activations; with a ReLU L + 1: its result is what the next layer keeps."""
    batch, d, count = sizes(rng, 3)
    x = random(rng, batch, d, dtype=torch.float32)
    for activation, activations in [("GELU", 2 * count), ("ReLU", count + 1)]:
        got = student.run(probes.saved_bytes_of_layers, activation=activation, x=x, layers=count)
        hint = "what does each layer keep, and is some of it the same storage?"
        expected = (activations * batch * d + count * d * d) * 4
        expect.value(got, expected, of="saved_activation_bytes", name="the bytes", hint=hint)


@pytest.mark.core
@pytest.mark.points(6)
def test_counts_a_storage_once(student, rng):
    """A storage that several operations keep counts once, whole, also where they keep views of it."""
    n, m = sizes(rng, 2)
    x, y = random(rng, n, m, dtype=torch.float32), random(rng, n, m, dtype=torch.float32)
    for save, tensors in [
        ("sin x, cos x, x·x", 1),
        ("sin of views of x", 1),
        ("sin of a row of x", 1),
        ("an expanded row of x, times y", 2),
        ("exp of sin x", 2),
    ]:
        hint = "tell storages apart, not tensors; a view keeps its whole storage"
        check_bytes(student, save, x, y, tensors * n * m * 4, hint=hint)


@pytest.mark.points(2)
def test_counts_equal_tensors_apart(student, rng):
    """Two storages of one size with the same values are two."""
    x = random(rng, *sizes(rng, 2), dtype=torch.float32)
    check_bytes(
        student,
        "sin x, sin y",
        x,
        x.clone(),
        2 * x.numel() * 4,
        hint="which two tensors are the same storage?",
    )


@pytest.mark.points(2)
def test_counts_on_the_meta_device(student, rng):
    """Tensors without data have storages with a size, too: a model can be measured that fits nowhere."""
    (count,) = sizes(rng, 1)
    x = torch.empty(2**17, 2**13, device="meta")
    got = student.run(
        probes.saved_bytes_of_layers, activation="GELU", x=x, layers=count, on_meta=True
    )
    hint = "every meta tensor has the address 0"
    expect.value(
        got,
        count * (2 * 2**30 + 2**26) * 4,
        of="saved_activation_bytes",
        name="the bytes",
        hint=hint,
    )


@pytest.mark.core
@pytest.mark.points(6)
def test_leaves_out_what_is_excluded(student, rng):
    """Storages of excluded tensors, given as any iterable, are not counted; all others are."""
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
        hint = "is exclude gone through once, and compared by storage?"
        check_bytes(student, save, x, y, tensors * n * m * 4, exclude=exclude, hint=hint)


@pytest.mark.points(4)
def test_leaves_out_views_of_what_is_excluded(student, rng):
    """A view stands for its storage, whether it is what is kept or what is excluded."""
    n, m = sizes(rng, 2)
    x, y = random(rng, n, m, dtype=torch.float32), random(rng, n, m, dtype=torch.float32)
    for save, exclude, tensors in [
        ("sin of views of x", ["x"], 0),
        ("sin of a row of x", ["x transposed"], 0),
        ("sin x, sin y", ["a row of x"], 1),
    ]:
        hint = "a linear layer keeps W as a view, its transpose: compare storages"
        check_bytes(student, save, x, y, tensors * n * m * 4, exclude=exclude, hint=hint)


@pytest.mark.points(1)
def test_the_function_may_take_gradients(student, rng):
    """A backward pass inside fn finds what it needs, and what is kept for the one that is to come is counted."""
    n, m = sizes(rng, 2)
    x = random(rng, n, m, dtype=torch.float32)
    hint = "what pack returns is what a backward pass will be given"
    check_bytes(student, "exp x times its gradient", x, x, 2 * n * m * 4, hint=hint)


@pytest.mark.points(2)
def test_counts_nothing_where_there_is_no_backward_pass(student, rng):
    """Where gradients are off, or no tensor requires one, nothing is kept."""
    x, y = random(rng, 4, 3, dtype=torch.float32), random(rng, 4, 3, dtype=torch.float32)
    hint = "only what autograd keeps counts, not what the forward pass makes"
    check_bytes(student, "gelu of x·y", x, y, 3 * 12 * 4, hint=hint)
    for options in ({"grad_enabled": False}, {"requires_grad": False}):
        check_bytes(student, "gelu of x·y", x, y, 0, hint=hint, **options)


@pytest.mark.points(2)
def test_calls_the_function_once(student, rng):
    """fn is called once, and no backward pass is run: gradients stay None."""
    x, y = random(rng, 4, 3, dtype=torch.float32), random(rng, 4, 3, dtype=torch.float32)
    got = check_bytes(student, "sin x", x, y, 12 * 4, hint=None)
    expect.value(got["calls"], 1, of="saved_activation_bytes", name="the number of calls of fn")
    left = [g for g in got["gradients"] if g is not None]
    expect.that(
        not left,
        "a gradient is left behind",
        of="saved_activation_bytes",
        hint="is a backward pass needed?",
    )


# --- checkpoint


@pytest.mark.core
@pytest.mark.points(12)
def test_output_and_gradients_are_those_of_the_function(student, rng):
    """Output and gradients, of inputs and of parameters that fn takes from around it, are added up as in a plain run."""
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
        hint = "in the backward pass: run fn with gradients on, then backward with the upstream gradient as it is"
        check_gradients(got, expected, of="checkpoint", hint=hint, tolerance=ATOL * max(1.0, scale))
        check_called_again(got["calls"])


# Stays: frozen first layers meet the same case, but through CheckpointedSequential.
@pytest.mark.points(4)
def test_parameters_get_gradients_where_no_input_requires_one(student, rng):
    """fn's parameters get their gradients also where none of the inputs requires one."""
    inputs = {**random_function(rng), "requires_grad": (False, False)}
    expected = probes.gradients_of(plain, **inputs)
    got = student.run(probes.gradients, **inputs)
    a_result(got["output"], expected["output"], of="checkpoint")
    hint = "an autograd.Function none of whose inputs requires a gradient has no backward pass"
    for _, gradient, _ in check_which_gradients(got, expected, of="checkpoint", hint=hint):
        changed = not torch.equal(gradient, torch.ones_like(gradient))  # it was 1 before
        expect.that(changed, "no gradient reaches the parameters", of="checkpoint", hint=hint)
    check_called_again(got["calls"])


# Stays: with one input, as in a segment, a copy of the others would go unnoticed.
@pytest.mark.core
@pytest.mark.points(12)
def test_keeps_its_inputs_only(student, rng):
    """Between forward and backward nothing that fn computed is alive, besides its result, and no copy of the inputs."""
    n, d = sizes(rng, 2, 20, 40)
    x = random(rng, n, d)
    got = student.run(probes.bytes_kept, x=x, weight=random(rng, d, d))
    a_result(got["output"], x, of="checkpoint")
    expect.that(got["requires_grad"], "the result requires no gradient", of="checkpoint")
    reason = (
        f"{got['bytes'] / (n * d * 8):.3g} times the bytes of an input are kept besides the inputs"
    )
    hint = "with gradients on, the first call of fn keeps its activations"
    expect.that(got["bytes"] == 0, reason, of="checkpoint", hint=hint)


# Stays: it alone says when the second call comes and what it is given.
@pytest.mark.core
@pytest.mark.points(4)
def test_calls_the_function_again_in_the_backward_pass(student, rng):
    """fn is called once in the forward pass and once in the backward pass, with the same inputs."""
    x = random(rng, *sizes(rng, 2))
    got = student.run(probes.calls, x=x, upstream=random(rng, *x.shape))
    name = "the number of calls of fn after the {} pass"
    expect.value(got["after_forward"], 1, of="checkpoint", name=name.format("forward"))
    hint = "once more in the backward pass, and only there"
    expect.value(got["after_backward"], 2, of="checkpoint", name=name.format("backward"), hint=hint)
    for z in got["inputs"]:
        expect.tensor(z, x, of="checkpoint", name="fn's input")


@pytest.mark.core
@pytest.mark.points(8)
def test_draws_the_same_random_numbers_again(student, rng):
    """In the backward pass a dropout drops the entries that it dropped in the forward pass, whatever was drawn since."""
    x = random(rng, 12, 16)
    got = student.run(probes.dropped, x=x, upstream=random(rng, 12, 16))
    kept = a_result(got["output"], x, of="checkpoint") != 0
    expect.tensor(
        got["output"], x.tanh() * kept * 2.0, of="checkpoint", atol=ATOL, name="the output"
    )
    check_called_again(got["calls"])
    gradient = got["gradient"]
    expect.that(
        gradient is not None and gradient.shape == x.shape,
        "no gradient reaches the input",
        of="checkpoint",
    )
    differ = int(((gradient != 0) != kept).sum())
    hint = "fn has to find torch's generator where it stood at its first call"
    reason = f"{differ} of {x.numel()} entries are dropped in one of the two calls alone"
    expect.that(differ == 0, reason, of="checkpoint", hint=hint)


@pytest.mark.points(2)
def test_leaves_the_random_state_as_it_was(student, rng):
    """After either pass torch's generator stands where a plain run would have it, so that the run goes on as a plain one."""
    x = random(rng, 6, 5)
    got = student.run(probes.dropped, x=x, upstream=x)
    check_called_again(got["calls"])
    expect.that(got["gradient"] is not None, "no gradient reaches the input", of="checkpoint")
    hint = "the first call draws as fn alone would: is a seed set before it?"
    reason = "the forward pass moves torch's generator elsewhere than fn alone does"
    expect.that(got["forward_draws_as_plain"], reason, of="checkpoint", hint=hint)
    hint = "what was the state before fn was called again?"
    expect.that(
        got["random_state_is_as_before"],
        "the backward pass moves torch's generator",
        of="checkpoint",
        hint=hint,
    )


@pytest.mark.points(2)
def test_without_gradients_it_just_calls_the_function(student, rng):
    """Under no_grad or inference_mode fn is called once, its result requires no gradient, and nothing is kept."""
    n, d = sizes(rng, 2)
    x, weight = random(rng, n, d), random(rng, d, d)
    for inference in (False, True):
        got = student.run(probes.without_gradients, x=x, weight=weight, inference=inference)
        expect.tensor(got["output"], x @ weight, of="checkpoint", atol=ATOL, name="the output")
        expect.value(got["calls"], 1, of="checkpoint", name="the number of calls of fn")
        hint = "does something turn gradients on that were off?"
        expect.that(
            not got["requires_grad"],
            "the result requires a gradient under no_grad",
            of="checkpoint",
            hint=hint,
        )
    kept = student.run(probes.bytes_kept, x=x, weight=weight, grad_enabled=False)["bytes"]
    hint = "nothing has to be kept where there is no backward pass"
    expect.value(kept, 0, of="checkpoint", name="the bytes kept under no_grad", hint=hint)


@pytest.mark.points(2)
def test_runs_again_under_the_same_autocast(student, rng):
    """The second call runs under the autocast of the first one, whatever is on where backward is called."""
    x, weight = random(rng, 4, 3, dtype=torch.float32), random(rng, 3, 3, dtype=torch.float32)
    for forward, backward in [(True, False), (False, True), (True, True), (False, False)]:
        got = student.run(
            probes.autocast_dtypes, x=x, weight=weight, forward=forward, backward=backward
        )
        check_called_again(len(got))
        expected = [torch.bfloat16 if forward else torch.float32] * len(got)
        hint = "is autocast on in the forward pass, and with which dtype? It has to be so again"
        expect.value(
            got, expected, of="checkpoint", name="the dtypes of a product in fn's calls", hint=hint
        )


@pytest.mark.points(2)
def test_checkpoints_inside_a_checkpoint(student, rng):
    """A function that checkpoints a part of itself can be checkpointed."""
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
        hint="does the inner one work inside the backward pass of the outer one?",
    )
    check_called_again(got["calls"])


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


# Stays: it alone looks at what comes out, with layers that differ.
@pytest.mark.core
@pytest.mark.points(8)
def test_layers_run_one_after_the_other(student, rng):
    """Output and gradients are those of nn.Sequential for any number of segments, also where a layer comes twice."""
    of, hint = "CheckpointedSequential", "every layer once, in the order given"
    for order, segments in [
        ([0, 1, 2, 3], 2),
        ([0, 1, 0, 2], 4),
        ([0, 1, 2], 3),
        ([0, 1, 2], 1),
        ([0], 1),
    ]:
        inputs = random_layers(rng, order)
        expected = probes.sequential_gradients_of(lambda layers: nn.Sequential(*layers), **inputs)
        got = student.run(probes.sequential_gradients, segments=segments, **inputs)
        expect.tensor(
            got["output"], expected["output"], of=of, atol=ATOL, name="the output", hint=hint
        )
        try:
            check_gradients(got, expected, of=of, hint=hint)
        except expect.Mismatch:
            own = student.run(probes.segments_by_hand, segments=segments, **inputs)
            check_which_gradients(own, expected, of="checkpoint")
            check_gradients(got, own, of=of, hint=hint)


# Stays: it is what segments are for, and it does not depend on when the layers run again.
@pytest.mark.core
@pytest.mark.points(8)
def test_segments_keep_their_inputs_only(student, rng):
    """After the forward pass the inputs of the segments are alive, and no other activation."""
    n, d = sizes(rng, 2, 10, 20)
    x, weight = random(rng, n, d), random(rng, d, d)
    for count, segments in [(6, 1), (6, 3), (5, 5), (7, 2)]:
        got = student.run(
            probes.sequential_bytes_kept, x=x, weight=weight, count=count, segments=segments
        )
        kept = got / (n * d * 8)
        reason = f"{kept:.3g} activations are kept besides the input and the output, expected {segments - 1}"
        hint = "each segment runs under checkpoint, the last one too; the input of the first is the module's own"
        expect.that(kept == segments - 1, reason, of="CheckpointedSequential", hint=hint)


@pytest.mark.core
@pytest.mark.points(4)
def test_segments_are_nearly_equal(student, rng):
    """There are as many segments as asked for, of neighbouring layers, and their lengths differ by at most one."""
    of = "CheckpointedSequential"
    x, weight = random(rng, 2, 3), random(rng, 3, 3)
    for count, segments in [(7, 3), (8, 3), (9, 4), (6, 3), (5, 4), (4, 1), (10, 7)]:
        got = student.run(probes.layers, x=x, weight=weight, count=count, segments=segments)
        name, hint = "the layers that the forward pass runs", "every layer once, in order"
        expect.value(got["forward"], list(range(count)), of=of, name=name, hint=hint)
        runs: list[list[int]] = []  # the backward pass runs the segments again, the last one first
        for number in got["backward"]:
            if not runs or number < runs[-1][-1]:
                runs.append([])
            runs[-1].append(number)
        again = [number for run in reversed(runs) for number in run]
        name, hint = (
            "the layers that the backward pass runs",
            "in the backward pass each layer runs once more",
        )
        expect.value(again, list(range(count)), of=of, name=name, hint=hint)
        expect.value(len(runs), segments, of=of, name="the number of segments")
        lengths = [len(run) for run in runs]
        hint = f"{count} layers in {segments} segments: how long is each?"
        near = max(lengths) - min(lengths) <= 1
        expect.that(near, "the lengths of the segments differ by more than one", of=of, hint=hint)


# Stays: an optimizer that is given no parameter trains nothing, which costs more than a name too many in a state_dict.
@pytest.mark.points(6)
def test_registers_its_layers(student, rng):
    """Parameters are the layers' own, and eval() reaches every layer."""
    got, _ = registered(student, rng)
    of, hint = "CheckpointedSequential", "nn.ModuleList registers the layers"
    expect.that(
        got["parameters_are_the_layers"],
        "parameters() are not the layers' own, in order",
        of=of,
        hint=hint,
    )
    expect.that(
        not any(got["training"]), "a layer is in training mode after eval()", of=of, hint=hint
    )


@pytest.mark.points(1)
def test_registers_each_layer_once(student, rng):
    """state_dict() has the parameters and buffers of the layers, each under one name."""
    got, count = registered(student, rng)
    reason = (
        f"state_dict holds {len(got['state'])} tensors, expected {count} weights and {count} biases"
    )
    expect.that(
        len(got["state"]) == 2 * count,
        reason,
        of="CheckpointedSequential",
        hint="is each layer registered, and once?",
    )


def registered(student, rng):
    """What a CheckpointedSequential registers, once it is known to run its layers; and how many layers have parameters."""
    d, n = sizes(rng, 2)
    weights, x = [random(rng, d, d) for _ in range(3)], random(rng, n, d)
    got = student.run(probes.module, x=x, weights=weights)
    a_result(got["output_in_eval"], x, of="CheckpointedSequential")
    return got, len(weights)


@pytest.mark.points(2)
def test_first_layers_may_be_frozen(student, rng):
    """Where input and first layers require no gradient, the others get theirs."""
    of, hint = (
        "CheckpointedSequential",
        "has the result of a segment a gradient to pass on, in the second call too?",
    )
    for frozen, segments in [(1, 4), (2, 2), (3, 2)]:
        inputs = {**random_layers(rng, [0, 1, 2, 3]), "frozen": frozen}
        expected = probes.sequential_gradients_of(lambda layers: nn.Sequential(*layers), **inputs)
        got = student.run(probes.sequential_gradients, segments=segments, **inputs)
        a_result(got["output"], expected["output"], of=of)
        check_which_gradients(got, expected, of=of, hint=hint)


@pytest.mark.points(1)
def test_refuses_more_segments_than_layers(student, rng):
    """More segments than there are layers is a ValueError."""
    x = random(rng, 3)
    with expect.right_call("4 layers in 1 segment, and in 4"):
        for segments in (1, 4):
            got = student.run(probes.run_layers, x=x, count=4, segments=segments)
            expect.tensor(got, 16 * x, of="CheckpointedSequential", name="the output")
    for count, segments in [(4, 5), (1, 2)]:
        when = "segments is more than the number of layers"
        with expect.raises(ValueError, of="CheckpointedSequential", when=when):
            student.run(probes.run_layers, x=x, count=count, segments=segments)
