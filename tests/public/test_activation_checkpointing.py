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
    expect.value(count(lambda: x.exp()), 24, of="saved_activation_bytes", inputs="x.exp()")
    expect.value(
        count(lambda: x.sin() + x.cos()),
        24,
        of="saved_activation_bytes",
        inputs="x.sin() + x.cos()",
    )
    got = count(lambda: x.sin() + x.cos(), exclude=(t for t in [x]))
    expect.value(got, 0, of="saved_activation_bytes", inputs="x.sin() + x.cos(), without x")


def test_saved_activation_bytes_of_a_linear_layer(student):
    """A layer keeps its input, 5·3 numbers, and its weight, which exclude leaves out."""
    layer, x = nn.Linear(3, 4), torch.rand(5, 3)
    got = student.activation_checkpointing.saved_activation_bytes(
        lambda: layer(x), exclude=layer.parameters()
    )
    expect.value(got, 60, of="saved_activation_bytes", inputs="a linear layer of x [5, 3]")


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
        name="the number of calls of fn",
        hint="once in the forward pass",
    )
    y.backward(torch.tensor([1.0, 10.0, 100.0]))
    expect.value(
        len(calls),
        2,
        of="checkpoint",
        name="the number of calls of fn",
        hint="and once in the backward pass",
    )
    upstream, z = torch.tensor([1.0, 10.0, 100.0]), x.detach()
    expect.tensor(
        x.grad,
        upstream * z.cos() * z.sin().exp() * weight.detach(),
        of="checkpoint",
        rtol=1e-5,
        name="x.grad",
    )
    expect.tensor(
        weight.grad, upstream * z.sin().exp(), of="checkpoint", rtol=1e-5, name="weight.grad"
    )


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
        hint="are the layers registered?",
    )
    with expect.raises(ValueError, of="CheckpointedSequential", when="segments is 5, for 4 layers"):
        student.activation_checkpointing.CheckpointedSequential(layers, 5)
