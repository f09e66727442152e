"""activation_checkpointing: what is counted, what is kept, and gradients equal to a plain run's.

Accepted on purpose: an autograd.Function or hooks on saved tensors; parameters' gradients only
through .backward(), as from an autograd.Function; inputs kept in any way that copies nothing; a
result that requires a gradient although nothing else does; any names in a state_dict; longer
segments first, last or in between.

What is kept is measured by which storages are alive after the forward pass, not by the student's
own count. The oracles are closed forms for bytes, and plain float64 runs of the same functions for
gradients. A CheckpointedSequential may have the gradients of the student's own `checkpoint`, called
manually for each segment.
"""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from kit import expect
from tests.probes import activation_checkpointing as probes

# A few nested sums of fewer than 100 terms of order 1, whose float64 error is below 1e-11.
ATOL = 1e-11


def random(rng, *shape, dtype=torch.float64):
    """Draw numbers between 0.5 and 1.5, so none is 0."""
    return (torch.rand(shape, generator=rng, dtype=torch.float64) + 0.5).to(dtype)


# --- saved_activation_bytes


def check_bytes(student, cases, *, hint, dtype=torch.float32):
    """Check the bytes of several cases: what is saved, how many of 35 numbers, and options."""
    x = (torch.arange(35).reshape(5, 7) / 35 + 0.5).to(dtype)
    calls = [{"save": save, "x": x, "y": x.clone(), **options} for save, _, options in cases]
    results = student.run(probes.saved_bytes, calls=calls)
    for (_, tensors, _), got in zip(cases, results, strict=True):
        expected = int(tensors * 35 * x.element_size())
        expect.value(got, expected, of="saved_activation_bytes", name="the bytes", hint=hint)


# Stays: the other tests count special cases only.
@pytest.mark.harm("wrong number")
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_counts_what_operations_keep(student, dtype):
    """exp keeps its result, sin its input, a product its factors, and a sum nothing.

    Each kept tensor counts with the bytes of its own dtype, also if another one has equal values.
    """
    counts = {"exp x": 1, "sin x": 1, "sin x, sin y": 2, "gelu of x·y": 3, "x + y": 0}
    cases = [(save, n, {}) for save, n in {**counts, "sin of a parameter": 1}.items()]
    hint = "saved_tensors_hooks shows each tensor that an operation saves: how many bytes has it?"
    check_bytes(student, cases, hint=hint, dtype=dtype)
    cases = [("gelu of x·y", 0, {"grad_enabled": False}), ("gelu of x·y", 0, {"of_data": True})]
    hint = "count only what autograd saves, not everything that the forward pass computes"
    check_bytes(student, cases, hint=hint, dtype=dtype)


# Stays: chapter 12 derives this sum, and students compare their own results with it.
@pytest.mark.harm("wrong number")
def test_counts_layers(student, rng):
    """L layers keep L weights plus 2L activations with GELU, or L + 1 with ReLU.

    The result of a ReLU is the tensor that the next layer keeps, so it counts once.
    """
    x = random(rng, 4, 6, dtype=torch.float32)
    hint = "what does each layer keep, and do some of these tensors share a storage?"
    for activation, activations in [("GELU", 2 * 3), ("ReLU", 3 + 1)]:
        for exclude, weights in [(False, 3 * 6 * 6), (True, 0)]:
            given = {"activation": activation, "layers": 3, "exclude": exclude}
            got = student.run(probes.saved_bytes_of_layers, x=x, **given)
            expected = (activations * 4 * 6 + weights) * 4
            expect.value(got, expected, of="saved_activation_bytes", name="the bytes", hint=hint)


@pytest.mark.harm("wrong number")
def test_counts_a_storage_once(student):
    """A storage counts once and with its full size, even if several operations save views of it."""
    counts = {"sin x, cos x, x·x": 1, "sin of views of x": 1, "sin of a row of x": 1}
    counts |= {"an expanded row of x, times y": 2, "exp of sin x": 2}
    cases = [(save, n, {}) for save, n in counts.items()]
    hint = "compare storages, not tensors; a view keeps its whole storage alive"
    check_bytes(student, cases, hint=hint)


@pytest.mark.harm("wrong number")
def test_leaves_out_what_is_excluded(student):
    """Storages of the excluded tensors and of their views are left out; all others count."""
    cases = [
        ("sin x, sin y", 1, {"exclude": ["x"]}),
        ("sin x, sin y", 0, {"exclude": ["x", "y"]}),
        ("gelu of x·y", 2, {"exclude": ["y"]}),
        ("exp x", 1, {"exclude": ["x", "y"]}),
        ("sin of views of x", 0, {"exclude": ["x"]}),
        ("sin of a row of x", 0, {"exclude": ["x transposed"]}),
        ("sin x, sin y", 1, {"exclude": ["a row of x"]}),
        ("sin x, sin y", 2, {}),
    ]
    cases += [(save, n, {**options, "as_list": True}) for save, n, options in cases[:2]]
    hint = "do you iterate over exclude only once, and compare by storage?"
    check_bytes(student, cases, hint=hint)


@pytest.mark.harm("rare")
def test_counts_on_the_meta_device(student):
    """Meta tensors count with their storage's size, so a huge model can be measured."""
    x = torch.empty(2**17, 2**13, device="meta")
    hint, of = "all meta tensors have the address 0", "saved_activation_bytes"
    for exclude, of_weights in [(False, 2**26), (True, 0)]:
        given = {"activation": "GELU", "x": x, "layers": 3, "exclude": exclude}
        got = student.run(probes.saved_bytes_of_layers, **given)
        expected = 3 * (2 * 2**30 + of_weights) * 4
        expect.value(got, expected, of=of, name="the bytes", hint=hint)


@pytest.mark.harm("crash")
def test_calls_the_function_once(student, rng):
    """fn is called once, and no backward pass runs: gradients stay None."""
    of = "saved_activation_bytes"
    got = student.run(probes.calls_to_count, x=random(rng, 4, 3, dtype=torch.float32))
    expect.value(got["result"], 12 * 4, of=of, name="the bytes")
    expect.value(got["calls"], 1, of=of, name="the number of calls of fn")
    hint = "does the count need a backward pass?"
    expect.that(not got["leaves_gradients"], "a gradient is left behind", of=of, hint=hint)


# --- checkpoint


def check_gradients(got, expected, *, of, hint=None):
    """Check output and gradients against the plain run, including which gradients exist."""
    expect.tensor(got["output"], expected["output"], of=of, atol=ATOL, name="the output")
    for kind in ("input", "parameter"):
        name = f"the gradient of one of the {kind}s"
        gradients = zip(got[f"{kind}_gradients"], expected[f"{kind}_gradients"], strict=True)
        for gradient, want in gradients:
            if want is None:
                expect.that(gradient is None, f"{name} that requires none", of=of)
                continue
            expect.that(gradient is not None, f"no gradient reaches the {kind}s", of=of, hint=hint)
            expect.tensor(gradient, want, of=of, atol=ATOL, name=name, hint=hint)


def check_called_again(calls):
    """Check that fn was called again: a plain call of fn is not a checkpoint."""
    expect.that(calls >= 2, "fn is not called again in the backward pass", of="checkpoint")


def check_function(student, rng, requires_grad, *, hint, nested=False):
    """Check output and gradients of a function of x, y and ids that uses two parameters."""
    x, y = random(rng, 4, 3) - 1, random(rng, 6, 3)
    ids = torch.randint(0, 6, (4,), generator=rng)
    parameters, upstream = [random(rng, 3, 5) - 1, random(rng, 5, 3) - 1], random(rng, 4, 3)
    given = {"x": x, "y": y, "ids": ids, "parameters": parameters, "upstream": upstream}
    given |= {"requires_grad": requires_grad, "nested": nested}
    expected = probes.gradients_of(lambda fn, *inputs: fn(*inputs), **given)
    got = student.run(probes.gradients, **given)
    check_gradients(got, expected, of="checkpoint", hint=hint)
    check_called_again(got["calls"])


# Stays: without it, other tests would judge the gradients only in special cases.
@pytest.mark.harm("trains worse")
def test_output_and_gradients_are_those_of_the_function(student, rng):
    """Output and gradients, of inputs and of fn's parameters, are those of a plain run."""
    hint = (
        "in the backward pass, run fn with gradients enabled, then call backward with the "
        "unchanged upstream gradient"
    )
    check_function(student, rng, (True, True), hint=hint)


# Stays: fine-tuning without it trains nothing, and says nothing.
@pytest.mark.harm("trains worse")
def test_parameters_get_gradients_where_no_input_requires_one(student, rng):
    """fn's parameters get their gradients even if none of the inputs requires one."""
    hint = "an autograd.Function has no backward pass if none of its inputs requires a gradient"
    check_function(student, rng, (False, False), hint=hint)


# Stays: hooks on saved tensors can fail here alone.
@pytest.mark.harm("crash")
def test_some_inputs_may_require_no_gradient(student, rng):
    """Of two inputs, one may require a gradient and the other none."""
    hint = "which inputs require a gradient in the second call?"
    for requires_grad in [(True, False), (False, True)]:
        check_function(student, rng, requires_grad, hint=hint)


# Stays: the purpose of the function; one input, as in a segment, would hide a copy.
@pytest.mark.harm("trains worse")
def test_keeps_its_inputs_only(student, rng):
    """Between forward and backward only fn's inputs and result are kept, without copies."""
    x, weight = random(rng, 32, 24), random(rng, 24, 24) / 24
    got, of = student.run(probes.bytes_kept, x=x, weight=weight), "checkpoint"
    expected = F.silu(F.gelu(x @ weight) * x.sin().sin() @ weight).sin()
    expect.tensor(got["output"], expected, of=of, atol=ATOL, name="the output")
    expect.that(got["requires_grad"], "the result does not require a gradient", of=of)
    times = got["bytes"] / (32 * 24 * 8)
    reason = f"{times:.3g} times the bytes of an input are kept in addition to the inputs"
    hint = "if gradients are enabled, the first call of fn keeps its activations"
    expect.that(got["bytes"] == 0, reason, of=of, hint=hint)


# Stays: only this test checks when the second call comes.
@pytest.mark.harm("wrong number")
def test_calls_the_function_again_in_the_backward_pass(student, rng):
    """fn is called once in the forward pass and once in the backward pass, with the same inputs."""
    x, of = random(rng, 4, 3), "checkpoint"
    got = student.run(probes.calls, x=x)
    name = "the number of calls of fn after the {} pass"
    expect.value(got["after_forward"], 1, of=of, name=name.format("forward"))
    hint = "call it once more in the backward pass, and only there"
    expect.value(got["after_backward"], 2, of=of, name=name.format("backward"), hint=hint)
    expect.parts(got["inputs"], 2, of=of, name="inputs of fn")
    for z in got["inputs"]:
        expect.tensor(z, x, of=of, name="fn's input")


def check_dropped(student, x, **options):
    """Check that both calls drop the same entries, and return the probe's answer."""
    of = "checkpoint"
    got = student.run(probes.dropped, x=x, **options)
    expect.tensor(got["output"] != 0, got["kept"], of=of, name="which entries are kept")
    expected = x.tanh() * got["kept"] * 2.0
    expect.tensor(got["output"], expected, of=of, atol=ATOL, name="the output")
    check_called_again(got["calls"])
    gradient, reason = got["gradient"], "no gradient reaches the input"
    expect.that(gradient is not None and gradient.shape == x.shape, reason, of=of)
    differ = int(((gradient != 0) != got["kept"]).sum())
    hint = "restore the state that torch's generator had before fn's first call"
    reason = f"{differ} of {x.numel()} entries are dropped in only one of the two calls"
    expect.that(differ == 0, reason, of=of, hint=hint)
    return got


@pytest.mark.harm("trains worse")
def test_draws_the_same_random_numbers_again(student, rng):
    """In the backward pass dropout drops the same entries as in the forward pass.

    There may be another checkpoint in between.
    """
    for another in (False, True):
        check_dropped(student, random(rng, 12, 16), another=another)


@pytest.mark.harm("trains worse")
def test_leaves_the_random_state_as_it_was(student, rng):
    """After the backward pass torch's generator is in the same state as before it."""
    got = check_dropped(student, random(rng, 6, 5), another=False)
    hint = "which state did the generator have before the second call of fn?"
    reason = "the backward pass changes the state of torch's generator"
    expect.that(got["random_state_is_as_before"], reason, of="checkpoint", hint=hint)


@pytest.mark.harm("crash")
def test_without_gradients_it_just_calls_the_function(student, rng):
    """Under no_grad checkpoint only calls fn once; the result does not require a gradient."""
    x, weight, of = random(rng, 4, 3), random(rng, 3, 3), "checkpoint"
    got = student.run(probes.without_gradients, x=x, weight=weight)
    expect.tensor(got["output"], x @ weight, of=of, atol=ATOL, name="the output")
    expect.value(got["calls"], 1, of=of, name="the number of calls of fn")
    hint, reason = "does something enable gradients?", "the result requires a gradient"
    expect.that(not got["requires_grad"], reason, of=of, hint=hint)


@pytest.mark.harm("crash")
def test_runs_again_under_the_same_autocast(student, rng):
    """The second call runs under the first call's autocast, not under that of the backward pass."""
    x, weight = random(rng, 4, 3, dtype=torch.float32), random(rng, 3, 3, dtype=torch.float32)
    hint = "is autocast on in the forward pass, and with which dtype? Use the same again"
    low, half = torch.bfloat16, torch.float16
    for dtype, forward, backward in [(low, True, False), (low, False, True), (half, True, True)]:
        given = {"dtype": dtype, "forward": forward, "backward": backward}
        got = student.run(probes.autocast_dtypes, x=x, weight=weight, **given)
        check_called_again(len(got))
        expected = [dtype if forward else torch.float32] * len(got)
        name = "the dtypes of a product in fn's calls"
        expect.value(got, expected, of="checkpoint", name=name, hint=hint)


# Stays: state that is kept for a call must not be that of another one.
@pytest.mark.harm("crash")
def test_checkpoints_inside_a_checkpoint(student, rng):
    """A function that checkpoints a part of itself can itself be checkpointed."""
    hint = "does the inner checkpoint work inside the backward pass of the outer one?"
    check_function(student, rng, (True, True), hint=hint, nested=True)


# --- CheckpointedSequential


def random_layers(rng, order):
    weights = [random(rng, 3, 3) - 1 for _ in range(max(order) + 1)]
    x, upstream = random(rng, 4, 3), random(rng, 4, 3)
    return {"x": x, "weights": weights, "order": order, "upstream": upstream}


def check_sequential(student, inputs, segments, *, hint):
    """Check output and gradients against nn.Sequential, or those of segments by hand."""
    of = "CheckpointedSequential"
    expected = probes.sequential_gradients_of(lambda layers: nn.Sequential(*layers), **inputs)
    got = student.run(probes.sequential_gradients, segments=segments, **inputs)
    expect.tensor(got["output"], expected["output"], of=of, atol=ATOL, name="the output", hint=hint)
    try:
        check_gradients(got, expected, of=of, hint=hint)
    except expect.Mismatch:
        own = student.run(probes.segments_by_hand, segments=segments, **inputs)
        expect.that(own["parameter_gradients"][-1] is not None, "no gradient", of="checkpoint")
        check_gradients(got, own, of=of, hint=hint)


# Stays: only this test checks the output of layers that differ.
@pytest.mark.harm("trains worse")
def test_layers_run_one_after_the_other(student, rng):
    """Output and gradients equal nn.Sequential's for any number of segments."""
    hint = "run every layer once, in the given order"
    for order, segments in [([0, 1, 2, 3, 4], 2), ([0, 1, 0, 2], 4), ([0, 1, 2], 1), ([0], 1)]:
        check_sequential(student, random_layers(rng, order), segments, hint=hint)


# Stays: saving memory is the purpose of segments, and this test does not depend on when the layers
# run again.
@pytest.mark.harm("wrong number")
def test_segments_keep_their_inputs_only(student, rng):
    """After the forward pass only the inputs of the segments are alive, and no other activation.

    Neither eval mode nor an input without a gradient makes a difference.
    """
    x, weight = random(rng, 16, 12), random(rng, 12, 12)
    hint = "run each segment under checkpoint, the last one and in eval mode, too"
    for count, segments, tunes in [(6, 1, False), (6, 3, True), (5, 5, False), (7, 2, False)]:
        given = {"count": count, "segments": segments, "tunes": tunes}
        got = student.run(probes.sequential_bytes_kept, x=x, weight=weight, **given)
        kept = got / (16 * 12 * 8)
        reason = (
            f"{kept:.3g} activations are kept in addition to the input and the output, "
            f"expected {segments - 1}"
        )
        expect.that(kept == segments - 1, reason, of="CheckpointedSequential", hint=hint)


@pytest.mark.harm("wrong number")
def test_segments_are_nearly_equal(student):
    """The layers form `segments` consecutive groups whose lengths differ by at most 1."""
    pairs = [(7, 3), (8, 3), (9, 4), (6, 3), (5, 4), (4, 1), (10, 7), (10, 9), (40, 7)]
    results = student.run(probes.layers, pairs=pairs)
    for (forward, backward), (count, segments) in zip(results, pairs, strict=True):
        check_segments(list(forward), list(backward), count, segments)


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
    name, hint = "the layers that the backward pass runs", "run each layer once more"
    expect.value(again, list(range(count)), of=of, name=name, hint=hint)
    expect.value(len(runs), segments, of=of, name="the number of segments")
    lengths = [len(run) for run in runs]
    hint = f"{count} layers in {segments} segments: how long is each segment?"
    near = max(lengths) - min(lengths) <= 1
    expect.that(near, "the lengths of the segments differ by more than one", of=of, hint=hint)


# Stays: an optimizer without parameters trains nothing.
@pytest.mark.harm("trains worse")
def test_registers_its_layers(student, rng):
    """parameters() returns the layers' own parameters, and eval() reaches every layer."""
    got, of = registered(student, rng), "CheckpointedSequential"
    reason, hint = "parameters() are not the layers' own", "nn.ModuleList registers the layers"
    expect.that(got["parameters_are_the_layers"], reason, of=of, hint=hint)
    expect.that(not got["some_train"], "a layer is in training mode after eval()", of=of, hint=hint)


@pytest.mark.harm("rare")
def test_registers_each_layer_once(student, rng):
    """state_dict() has each parameter and buffer of the layers under exactly one name."""
    got = registered(student, rng)
    reason = f"state_dict holds {got['state']} tensors, expected 3 weights and 3 biases"
    hint = "is each layer registered exactly once?"
    expect.that(got["state"] == 6, reason, of="CheckpointedSequential", hint=hint)


def registered(student, rng):
    """Check that a CheckpointedSequential of three layers runs, and return what it registers."""
    weights, x = [random(rng, 3, 3) for _ in range(3)], random(rng, 4, 3)
    got = student.run(probes.module, x=x, weights=weights)
    for matrix in weights:
        x = (x @ matrix + matrix[0]).sin()
    of = "CheckpointedSequential"
    expect.tensor(got["output"], x, of=of, atol=ATOL, name="the output in eval mode")
    return got


@pytest.mark.harm("crash")
def test_first_layers_may_be_frozen(student, rng):
    """If the input and the first layers require no gradient, the other layers still get theirs."""
    hint = "does the result of a segment require a gradient, in the second call too?"
    for frozen, segments in [(1, 4), (2, 2)]:
        inputs = {**random_layers(rng, [0, 1, 2, 3]), "frozen": frozen}
        check_sequential(student, inputs, segments, hint=hint)


@pytest.mark.harm("not refused")
def test_refuses_more_segments_than_layers(student):
    """More segments than layers raise a ValueError."""
    with expect.right_call("4 layers in 1 segment, and in 4"):
        results = student.run(probes.layers, pairs=[(4, 1), (4, 4)])
        expect.parts(results, 2, of="CheckpointedSequential")
        for forward, _ in results:
            expect.value(list(forward), [0, 1, 2, 3], of="CheckpointedSequential", name="layers")
    when = "segments is more than the number of layers"
    with expect.raises(ValueError, of="CheckpointedSequential", when=when):
        student.run(probes.layers, pairs=[(4, 5)])
