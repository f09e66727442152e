"""activation_checkpointing: what autograd keeps, and how to keep less of it. Handout §12.1."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from kit import expect


def test_saved_activation_bytes_of_the_examples(student):
    """exp keeps its result; sin and cos both keep x, which is one storage.

    x has 6 float32 numbers, 24 bytes.
    """
    x = torch.rand(6, requires_grad=True)
    count = student.activation_checkpointing.saved_activation_bytes
    hints = {6: "in bytes, not in elements", 0: "exp keeps its result", 48: "exp does not keep x"}
    got, of = count(lambda: x.exp()), "saved_activation_bytes"
    expect.value(got, 24, of=of, inputs="x.exp()", hints=hints)
    hints = {
        48: "both keep x, whose storage counts once, and the sum is not kept",
        72: "what the backward pass does not need is not kept",
    }
    got = count(lambda: x.sin() + x.cos())
    expect.value(got, 24, of=of, inputs="x.sin() + x.cos()", hints=hints)
    got = count(lambda: x.sin() + x.cos(), exclude=(t for t in [x]))
    hints = {24: "exclude leaves out x; it may be a generator"}
    expect.value(got, 0, of=of, inputs="x.sin() + x.cos(), without x", hints=hints)


def test_saved_activation_bytes_of_a_linear_layer(student):
    """A layer keeps its input, 5·3 numbers, and its weight, which exclude leaves out."""
    layer, x = nn.Linear(3, 4), torch.rand(5, 3)
    count = student.activation_checkpointing.saved_activation_bytes
    got = count(lambda: layer(x), exclude=layer.parameters())
    hints = {108: "exclude leaves out the weight, although autograd keeps its transpose"}
    hints |= {156: hints[108]}
    inputs = "a linear layer of x [5, 3], without its parameters"
    expect.value(got, 60, of="saved_activation_bytes", inputs=inputs, hints=hints)
    x.requires_grad_()
    inputs = "a linear layer of x [5, 3], which requires a gradient, and without exclude"
    got = count(lambda: layer(x))
    expect.value(got, 60 + 48, of="saved_activation_bytes", inputs=inputs)


X = torch.tensor([0.5, 1.0, 1.5, 2.0, 2.5, 3.0], requires_grad=True)  # 24 bytes
SAME = X.detach().clone().requires_grad_()  # equal values in another storage
WIDE = X.detach().double().requires_grad_()  # 48 bytes
PARAMETER = nn.Parameter(X.detach().clone())
META = torch.rand(6, device="meta", requires_grad=True)  # all meta storages have address 0


@pytest.mark.parametrize(
    ("what", "fn", "exclude", "want"),
    [
        ("x[1:3].sin(), which keeps a view of x", lambda: X[1:3].sin(), (), 24),
        ("x[1:3].sin(), without x", lambda: X[1:3].sin(), (X,), 0),
        ("x[1:3].sin(), without x[4:]", lambda: X[1:3].sin(), (X[4:],), 0),
        ("sin of a parameter", lambda: PARAMETER.sin(), (), 24),
        ("x in float64", lambda: WIDE.exp(), (), 48),
        ("x and an equal tensor", lambda: X.sin() + SAME.sin(), (), 48),
        ("x and x.sin() on the meta device", lambda: META.sin().sin(), (), 48),
    ],
)
def test_saved_activation_bytes_of_storages(student, what, fn, exclude, want):
    """Each storage counts once, as a whole, and is told apart by itself, not by its address."""
    for number in ("first", "second"):
        count = student.activation_checkpointing.saved_activation_bytes
        got, inputs = count(fn, exclude=exclude), f"{what}, {number} call"
        hints = {8: "a view keeps its whole storage"} if "view" in what else {}
        two = "storages with equal values or addresses are two"
        hints |= {24: "a float64 takes 8 bytes" if "64" in what else two} if want == 48 else {}
        hints |= {24: "a view of an excluded storage is excluded, too"} if exclude else {}
        expect.value(got, want, of="saved_activation_bytes", inputs=inputs, hints=hints)


def test_saved_activation_bytes_calls_once(student):
    """fn is called once, and without gradients it keeps nothing."""
    calls = []
    count = student.activation_checkpointing.saved_activation_bytes
    count(lambda: calls.append(1) or X.exp())
    expect.value(len(calls), 1, of="saved_activation_bytes", name="the number of calls of fn")
    with torch.no_grad():
        got = count(lambda: X.exp())
    expect.value(got, 0, of="saved_activation_bytes", inputs="x.exp() under torch.no_grad()")


GRADIENTS_ON = "a backward pass runs without gradients: turn them on before fn runs again"


def test_checkpoint_calls_again_and_has_the_same_gradients(student):
    """exp(sin x) has the gradient cos(x)·exp(sin x); a weight that fn uses gets a gradient too."""
    x = torch.tensor([0.5, 1.0, 2.0], requires_grad=True)
    weight = nn.Parameter(torch.tensor([2.0, 3.0, 4.0]))
    calls = []

    def fn(z):
        calls.append(z)
        return z.sin().exp() * weight

    y = student.activation_checkpointing.checkpoint(fn, x)
    name = "the number of calls of fn in the forward pass"
    expect.value(len(calls), 1, of="checkpoint", name=name)
    y.backward(torch.tensor([1.0, 10.0, 100.0]))
    name = "the number of calls of fn in both passes"
    hints = {1: "fn runs again in the backward pass, so that nothing inside it is kept"}
    expect.value(len(calls), 2, of="checkpoint", name=name, hints=hints)
    upstream, z = torch.tensor([1.0, 10.0, 100.0]), x.detach()
    slope = z.cos() * z.sin().exp() * weight.detach()
    hints = [(slope, "the upstream gradient is [1, 10, 100], and not ones")]
    twice = "x gets its gradient twice: is each saved input detached before fn runs again?"
    hints.append((2 * upstream * slope, twice))
    more = {"of": "checkpoint", "rtol": 1e-5, "hint": GRADIENTS_ON if x.grad is None else None}
    expect.tensor(x.grad, upstream * slope, name="x.grad", hints=hints, **more)
    name = "weight.grad"
    expect.tensor(weight.grad, upstream * z.sin().exp(), of="checkpoint", rtol=1e-5, name=name)


def test_checkpoint_of_ids_and_a_parameter(student):
    """Only the table requires a gradient: row 2 is looked up twice, so its gradient is 1 + 100.

    The ids get none, and the gradient is added to what .grad already holds.
    """
    ids, table = torch.tensor([2, 0, 2]), nn.Parameter(torch.ones(3))
    table.grad = torch.tensor([5.0, 5.0, 0.0])
    y = student.activation_checkpointing.checkpoint(lambda i: table[i], ids)
    expect.that(y.requires_grad, "the output requires no gradient", of="checkpoint")
    y.backward(torch.tensor([1.0, 10.0, 100.0]))
    want = torch.tensor([15.0, 5.0, 101.0])
    expect.tensor(table.grad, want, of="checkpoint", name="table.grad, which held 5")


@pytest.mark.parametrize(("a_needs_it", "b_needs_it"), [(True, True), (True, False), (False, True)])
def test_checkpoint_of_several_inputs(student, a_needs_it, b_needs_it):
    """a·sin(b) has the gradients sin(b) and a·cos(b), for those that require one."""
    a, b = torch.tensor([2.0], requires_grad=a_needs_it), torch.tensor([3.0])
    b.requires_grad_(b_needs_it)
    student.activation_checkpointing.checkpoint(lambda x, y: x * y.sin(), a, b).backward()
    for name, x, want in (("a", a, b.sin()), ("b", b, a * b.cos())):
        if x.requires_grad:
            name = f"the gradient of {name}"
            expect.tensor(x.grad, want.detach(), of="checkpoint", name=name)
        else:
            expect.that(x.grad is None, f"{name} requires no gradient", of="checkpoint")


def test_checkpoint_without_gradients(student):
    """Under torch.no_grad fn is called once, and the result has no graph."""
    calls = []
    with torch.no_grad():
        y = student.activation_checkpointing.checkpoint(lambda z: calls.append(1) or z.sin(), X)
    expect.value(len(calls), 1, of="checkpoint", name="the number of calls of fn")
    expect.that(not y.requires_grad, "the result requires a gradient", of="checkpoint")


@pytest.mark.parametrize("is_on", [False, True])
def test_checkpoint_calls_again_under_the_same_autocast(student, is_on):
    """Both calls of fn see the autocast of the first one, also if the backward pass has another."""
    seen = []

    def fn(z):
        seen.append(torch.is_autocast_enabled("cpu"))
        return z @ z.T

    x = torch.rand(2, 3, requires_grad=True)
    with torch.autocast("cpu", torch.bfloat16, enabled=is_on):
        y = student.activation_checkpointing.checkpoint(fn, x)
    with torch.autocast("cpu", torch.bfloat16, enabled=not is_on):
        y.sum().backward()
    expect.value(seen, [is_on, is_on], of="checkpoint", name="autocast in both calls")


def test_checkpoints_one_inside_the_other(student):
    """A checkpoint inside a checkpoint, and one after it, have the gradients of the plain run."""
    run = student.activation_checkpointing.checkpoint
    x = torch.tensor([0.5, 1.0, 2.0], requires_grad=True)
    run(lambda z: z.cos(), run(lambda z: run(torch.sin, z).exp(), x)).sum().backward()
    z = x.detach()
    want = -z.sin().exp().sin() * z.sin().exp() * z.cos()
    expect.tensor(x.grad, want, of="checkpoint", rtol=1e-5, name="x.grad of cos(exp(sin x))")


def test_checkpoint_keeps_its_input_only(student):
    """For x.sin().exp() autograd keeps x and the result; with checkpoint it keeps only x."""
    x = torch.rand(6, requires_grad=True)
    module, fn = student.activation_checkpointing, lambda z: z.sin().exp()
    got = module.saved_activation_bytes(lambda: module.checkpoint(fn, x), exclude=[x])
    expect.value(got, 0, of="checkpoint", inputs="x.sin().exp(), without x")


def test_checkpoint_drops_the_same_entries_again(student):
    """The gradient of a dropout is 2 where an entry was kept and 0 where it was dropped.

    Two dropouts in a row multiply by 4 or by 0. Afterwards torch's generator goes on.
    """
    run, of = student.activation_checkpointing.checkpoint, "checkpoint"
    x = torch.ones(64, requires_grad=True)
    y = run(lambda z: F.dropout(z, 0.5), run(lambda z: F.dropout(z, 0.5), x))
    torch.rand(5)
    state = torch.get_rng_state()
    y.sum().backward()
    hint = "which state must torch's generator have in the second call?"
    hint = GRADIENTS_ON if x.grad is None else hint
    expect.tensor(x.grad, y.detach(), of=of, name="x.grad", hint=hint)
    hint = "put back the random state that the second call has found"
    name = "torch.get_rng_state() after the backward pass"
    expect.tensor(torch.get_rng_state(), state, of=of, name=name, hint=hint)


@pytest.mark.parametrize("segments", [1, 2, 4])
def test_sequential_is_the_layers_in_order(student, segments):
    """Four layers in 1, 2 or 4 segments give the same result as in nn.Sequential."""
    layers = [nn.Sequential(nn.Linear(3, 3), nn.Tanh()) for _ in range(4)]
    x = torch.rand(5, 3)
    model = student.activation_checkpointing.CheckpointedSequential(layers, segments)
    want, of = nn.Sequential(*layers)(x), "CheckpointedSequential"
    expect.tensor(model(x), want, of=of, rtol=1e-6, atol=1e-6)
    count = len(list(model.parameters()))
    name = "the number of parameters"
    hints = {0: "layers in a plain list are not registered: nn.ModuleList registers them"}
    expect.value(count, 8, of="CheckpointedSequential", name=name, hints=hints)
    with expect.raises(ValueError, of="CheckpointedSequential", when="segments is 5, for 4 layers"):
        student.activation_checkpointing.CheckpointedSequential(layers, 5)


class Layer(nn.Linear):
    """A layer of 3 features that notes its number whenever it runs."""

    def __init__(self, number, calls):
        super().__init__(3, 3)
        self.number, self.calls = number, calls

    def forward(self, x):
        self.calls.append(self.number)
        return super().forward(x).tanh()


def numbered(count):
    """Layers 0, 1, … and the list in which they note their calls."""
    calls = []
    return [Layer(number, calls) for number in range(count)], calls


def lengths_of_runs(calls):
    """The lengths of the segments, from the numbers of layers in the order of their calls."""
    starts = [i for i, n in enumerate(calls) if i == 0 or n != calls[i - 1] + 1]
    return sorted(b - a for a, b in zip(starts, [*starts[1:], len(calls)], strict=True))


@pytest.mark.parametrize(
    ("segments", "lengths"), [(1, [7]), (2, [3, 4]), (3, [2, 2, 3]), (5, [1, 1, 1, 2, 2])]
)
def test_sequential_calls_segment_by_segment(student, segments, lengths):
    """Seven layers run once; in the backward pass, each segment runs again, the last one first.

    Only the segments' inputs are kept, each of 2·3 float32 numbers: 24 bytes.
    """
    layers, calls = numbered(7)
    module = student.activation_checkpointing
    model = module.CheckpointedSequential(layers, segments)
    x = torch.rand(2, 3, requires_grad=True)
    of, inputs = "CheckpointedSequential", f"7 layers, {segments} segments"
    kept = module.saved_activation_bytes(lambda: model(x), exclude=list(model.parameters()))
    expect.value(calls, [*range(7)], of=of, name="the layers that run", inputs=inputs)
    calls.clear()
    y = model(x)
    calls.clear()
    y.sum().backward()
    got = lengths_of_runs(calls) if len(calls) == 7 else sorted(calls)
    name = "the lengths of the segments in the backward pass"
    is_some = len(calls) < 7
    hint = "is each segment checkpointed?" if is_some else "lengths differ by 1 at most"
    hint = None if len(calls) > 7 else hint
    expect.value(got, lengths, of=of, name=name, inputs=inputs, hint=hint)
    reason = f"{kept} bytes are kept, more than the inputs of {segments} segments: {24 * segments}"
    expect.that(kept <= 24 * segments, reason, of=of, values=[("inputs", inputs)])


def test_sequential_has_the_gradients_of_sequential(student):
    """With dropout and a frozen first layer, each parameter gets the same gradient."""
    layers, _ = numbered(5)
    layers[1] = nn.Sequential(layers[1], nn.Dropout(0.5))
    layers[0].requires_grad_(False)
    x, gradients = torch.rand(2, 3), []
    make = student.activation_checkpointing.CheckpointedSequential
    for model in (nn.Sequential(*layers), make(layers, 5)):
        torch.manual_seed(1)
        for layer in layers:
            layer.zero_grad()
        model(x).sum().backward()
        gradients.append([p.grad.clone() for layer in layers[1:] for p in layer.parameters()])
    for want, got in zip(*gradients, strict=True):
        name = "a parameter's gradient"
        expect.tensor(got, want, of="CheckpointedSequential", atol=1e-6, rtol=1e-5, name=name)


def test_sequential_registers_its_layers(student):
    """Each parameter is that of a layer and has one name; eval() reaches every layer."""
    of = "CheckpointedSequential"
    layers, _ = numbered(4)
    model = student.activation_checkpointing.CheckpointedSequential(layers, 2).eval()
    expect.value(len(model.state_dict()), 8, of=of, name="the number of names in state_dict()")
    same = {id(p) for p in model.parameters()} == {id(p) for m in layers for p in m.parameters()}
    expect.that(same, "its parameters are not those of the layers that it got", of=of)
    expect.that(not any(m.training for m in layers), "a layer trains after eval()", of=of)
