"""activation_checkpointing: what autograd keeps, and how to keep less of it. Handout §12.1."""

import copy

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
    got = student.activation_checkpointing.saved_activation_bytes(
        lambda: layer(x), exclude=layer.parameters()
    )
    hints = {108: "exclude leaves out the weight, although autograd keeps its transpose"}
    hints |= {156: hints[108]}
    inputs = "a linear layer of x [5, 3], without its parameters"
    expect.value(got, 60, of="saved_activation_bytes", inputs=inputs, hints=hints)
    x.requires_grad_()
    got = student.activation_checkpointing.saved_activation_bytes(lambda: layer(x))
    inputs = "a linear layer of x [5, 3], which requires a gradient, and without exclude"
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
        ("a function that calls torch.autograd.grad", lambda: slope(X.sin()), (), 24),
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


def slope(y):
    """A gradient, computed inside a function."""
    return torch.autograd.grad(y.sum(), X)[0]


def test_saved_activation_bytes_calls_once(student):
    """fn is called once, and without gradients it keeps nothing."""
    calls = []
    count = student.activation_checkpointing.saved_activation_bytes
    count(lambda: calls.append(1) or X.exp())
    expect.value(len(calls), 1, of="saved_activation_bytes", name="the number of calls of fn")
    with torch.no_grad():
        got = count(lambda: X.exp())
    expect.value(got, 0, of="saved_activation_bytes", inputs="x.exp() under torch.no_grad()")


def test_checkpoint_calls_again_and_has_the_same_gradients(student):
    """exp(sin x) has the gradient cos(x)·exp(sin x); a weight that fn uses gets a gradient too."""
    x = torch.tensor([0.5, 1.0, 2.0], requires_grad=True)
    weight = nn.Parameter(torch.tensor([2.0, 3.0, 4.0]))
    calls = []

    def fn(z):
        calls.append(z)
        return z.sin().exp() * weight

    y = student.activation_checkpointing.checkpoint(fn, x)
    expect.value(
        len(calls),
        1,
        of="checkpoint",
        name="the number of calls of fn in the forward pass",
    )
    y.backward(torch.tensor([1.0, 10.0, 100.0]))
    expect.value(
        len(calls),
        2,
        of="checkpoint",
        name="the number of calls of fn in both passes",
        hints={1: "fn runs again in the backward pass, so that nothing inside it is kept"},
    )
    upstream, z = torch.tensor([1.0, 10.0, 100.0]), x.detach()
    slope = z.cos() * z.sin().exp() * weight.detach()
    hints = [(slope, "the upstream gradient is [1, 10, 100], and not ones")]
    expect.tensor(x.grad, upstream * slope, of="checkpoint", rtol=1e-5, name="x.grad", hints=hints)
    expect.tensor(
        weight.grad, upstream * z.sin().exp(), of="checkpoint", rtol=1e-5, name="weight.grad"
    )


def test_checkpoint_of_ids_and_a_parameter(student):
    """Only the table requires a gradient: row 2 is looked up twice, so its gradient is 1e-8 + 1e6.

    The ids get none, and the gradient is added to what .grad already holds.
    """
    ids, table = torch.tensor([2, 0, 2]), nn.Parameter(torch.ones(3))
    table.grad = torch.tensor([5.0, 5.0, 0.0])
    y = student.activation_checkpointing.checkpoint(lambda i: table[i], ids)
    expect.that(y.requires_grad, "the output requires no gradient", of="checkpoint")
    y.backward(torch.tensor([1e-8, 1.0, 1e6]))
    want = torch.tensor([6.0, 5.0, 1e-8 + 1e6])
    expect.tensor(table.grad, want, of="checkpoint", rtol=1e-6, name="table.grad, which held 5")
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    y = student.activation_checkpointing.checkpoint(lambda z: 3 * z, x)
    y.backward(torch.tensor([1e-8, 1e6]))
    want = torch.tensor([3e-8, 3e6])
    expect.tensor(x.grad, want, of="checkpoint", rtol=1e-6, name="x.grad of 3x")


def test_checkpoint_of_several_inputs_and_of_none(student):
    """a·b has the gradients b and a. A function without inputs may use a parameter."""
    a, b = (torch.tensor([v], requires_grad=True) for v in (2.0, 3.0))
    run = student.activation_checkpointing.checkpoint
    run(lambda x, y: x * y, a, b).backward()
    for name, got, want in (("a", a.grad, 3.0), ("b", b.grad, 2.0)):
        expect.tensor(got, torch.tensor([want]), of="checkpoint", name=f"the gradient of {name}")
    p = nn.Parameter(torch.tensor([4.0]))
    calls = []
    run(lambda: calls.append(1) or p * p).backward()
    expect.tensor(p.grad, torch.tensor([8.0]), of="checkpoint", name="the gradient of p in p·p")
    expect.value(len(calls), 2, of="checkpoint", name="the calls of a function without inputs")


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


class Dropping(nn.Module):
    """A module that drops entries in eval mode, too."""

    def forward(self, x):
        return F.dropout(x, 0.5, training=True)


def test_checkpoint_of_a_module_in_eval_mode(student):
    """Its random numbers are the same in both calls, and its mode stays as it was."""
    x, module = torch.ones(64, requires_grad=True), Dropping().eval()
    y = student.activation_checkpointing.checkpoint(module, x)
    y.sum().backward()
    name, hint = "x.grad of a module that drops entries", "are the same entries dropped again?"
    expect.tensor(x.grad, y.detach(), of="checkpoint", name=name, hint=hint)
    expect.value(module.training, False, of="checkpoint", name="the module's mode")


def test_checkpoints_with_dropout_one_inside_the_other(student):
    """Each of three checkpoints drops the same entries again, and torch's generator goes on.

    Dropouts in a row multiply by powers of 2 or by 0: the gradient of ones is the output.
    """
    run = student.activation_checkpointing.checkpoint

    def inner(z):
        return F.dropout(run(lambda u: F.dropout(u, 0.5), z), 0.5)

    x = torch.ones(64, requires_grad=True)
    y = run(lambda z: F.dropout(z, 0.5), run(inner, x))
    state = torch.get_rng_state()
    y.sum().backward()
    hint = "each second call starts with the random state of its own first call"
    expect.tensor(x.grad, y.detach(), of="checkpoint", name="x.grad", hint=hint)
    hint = "put back the random state that the second call has found"
    name = "torch.get_rng_state() after the backward pass"
    expect.tensor(torch.get_rng_state(), state, of="checkpoint", name=name, hint=hint)


def test_checkpoint_keeps_its_input_only(student):
    """For x.sin().exp() autograd keeps x and the result; with checkpoint it keeps only x."""
    x = torch.rand(6, requires_grad=True)
    module = student.activation_checkpointing
    got = module.saved_activation_bytes(
        lambda: module.checkpoint(lambda z: z.sin().exp(), x), exclude=[x]
    )
    expect.value(got, 0, of="checkpoint", inputs="x.sin().exp(), without x")


def test_checkpoint_drops_the_same_entries_again(student):
    """The gradient of a dropout is 2 where an entry was kept and 0 where it was dropped."""
    x = torch.ones(64, requires_grad=True)
    y = student.activation_checkpointing.checkpoint(lambda z: F.dropout(z, 0.5), x)
    torch.rand(5)
    y.sum().backward()
    expect.tensor(
        x.grad,
        y.detach(),
        of="checkpoint",
        name="x.grad",
        hint="which state must torch's generator have in the second call?",
    )


@pytest.mark.parametrize("segments", [1, 2, 4])
def test_sequential_is_the_layers_in_order(student, segments):
    """Four layers in 1, 2 or 4 segments give the same result as in nn.Sequential."""
    layers = [nn.Sequential(nn.Linear(3, 3), nn.Tanh()) for _ in range(4)]
    x = torch.rand(5, 3)
    model = student.activation_checkpointing.CheckpointedSequential(layers, segments)
    expect.tensor(
        model(x), nn.Sequential(*layers)(x), of="CheckpointedSequential", rtol=1e-6, atol=1e-6
    )
    count = len(list(model.parameters()))
    expect.value(
        count,
        8,
        of="CheckpointedSequential",
        name="the number of parameters",
        hints={0: "layers in a plain list are not registered: nn.ModuleList registers them"},
    )
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
@pytest.mark.parametrize("training", [True, False])
def test_sequential_calls_segment_by_segment(student, segments, lengths, training):
    """Seven layers run once; in the backward pass, each segment runs again, the last one first.

    Only the segments' inputs are kept, each of 2·3 float32 numbers: 24 bytes.
    """
    layers, calls = numbered(7)
    module = student.activation_checkpointing
    model = module.CheckpointedSequential(layers, segments).train(training)
    x = torch.rand(2, 3, requires_grad=True)
    kept = module.saved_activation_bytes(lambda: model(x), exclude=list(model.parameters()))
    of, inputs = "CheckpointedSequential", f"7 layers, {segments} segments, training={training}"
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
    """With dropout in some layers, in their own modes, each parameter gets the same gradient."""
    layers, _ = numbered(5)
    layers[1] = nn.Sequential(layers[1], nn.Dropout(0.5))
    layers[2] = nn.Sequential(layers[2], nn.Dropout(0.5)).eval()
    x = torch.rand(2, 3)
    gradients = []
    for model in (
        nn.Sequential(*layers),
        student.activation_checkpointing.CheckpointedSequential(layers, 2),
    ):
        torch.manual_seed(1)
        for layer in layers:
            layer.zero_grad()
        model(x).sum().backward()
        gradients.append([p.grad.clone() for layer in layers for p in layer.parameters()])
    for want, got in zip(*gradients, strict=True):
        name = "a parameter's gradient"
        expect.tensor(got, want, of="CheckpointedSequential", atol=1e-6, rtol=1e-5, name=name)


def test_sequential_registers_its_layers(student):
    """Each parameter has one name. A copy has parameters of its own. Hooks of layers run.

    The caller's list may change afterwards.
    """
    of = "CheckpointedSequential"
    layers, calls = numbered(4)
    given = list(layers)
    model = student.activation_checkpointing.CheckpointedSequential(given, 2)
    expect.value(len(model.state_dict()), 8, of=of, name="the number of names in state_dict()")
    same = {id(p) for p in model.parameters()} == {id(p) for m in layers for p in m.parameters()}
    expect.that(same, "its parameters are not those of the layers that it got", of=of)
    given.clear()
    hooks = []
    layers[3].register_forward_hook(lambda *_: hooks.append(1))
    x = torch.rand(2, 3)
    before = model(x).detach()
    expect.value(len(calls), 4, of=of, name="the layers that run after the caller's list is empty")
    expect.value(len(hooks), 1, of=of, name="the calls of a layer's forward hook", hint="layer(x)")
    copied = copy.deepcopy(model)
    for p in copied.parameters():
        p.data.zero_()
    name = "the output of a deep copy whose parameters are 0"
    expect.tensor(copied(x).detach(), torch.zeros(2, 3), of=of, name=name)
    name = "the output of the original after its copy changed"
    expect.tensor(model(x).detach(), before, of=of, name=name)
