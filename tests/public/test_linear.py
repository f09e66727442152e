"""linear: a linear layer, a stack of linear layers, and a count of parameters. Handout §7.1."""

import pytest
import torch

from tests import expect


def test_linear_of_the_example(student):
    """Weight [[2, 3]] maps (1, 10) to 2·1 + 3·10 = 32, with any leading dimensions."""
    layer = student.linear.Linear(2, 1)
    names = [name for name, _ in layer.named_parameters()]
    expect.value(
        names,
        ["weight"],
        of="Linear",
        name="the names of its parameters",
        hint="self.weight = nn.Parameter(...)",
    )
    layer.load_state_dict({"weight": torch.tensor([[2.0, 3.0]])})
    x = torch.tensor([1.0, 10.0])
    expect.tensor(
        layer(x), torch.tensor([32.0]), of="Linear.forward", inputs="x [1, 10], weight [[2, 3]]"
    )
    expect.tensor(
        layer(x.expand(5, 4, 2)),
        torch.full((5, 4, 1), 32.0),
        of="Linear.forward",
        inputs="x [5, 4, 2]",
    )


def test_linear_is_drawn_within_three_standard_deviations(student):
    """With in_features 4, the standard deviation is 1/2 and no entry is beyond ±1.5."""
    weight = student.linear.Linear(4, 5000).weight
    expect.tensor(
        weight.to("meta"), torch.empty(5000, 4, device="meta"), of="Linear", name="weight"
    )
    expect.that(weight.abs().max().item() <= 1.5, "an entry lies beyond 3 · 0.5", of="Linear")
    expect.number(
        weight.std().item(), 0.493, of="Linear", tolerance=0.02, hint="std is 1/sqrt(in_features)"
    )


def test_linear_is_made_where_it_is_wanted(student):
    """A layer on the meta device has a shape and a dtype but takes no memory."""
    layer = student.linear.Linear(3, 5, device="meta", dtype=torch.bfloat16)
    expect.tensor(
        layer.weight,
        torch.empty(5, 3, device="meta", dtype=torch.bfloat16),
        of="Linear",
        name="weight",
    )


def test_mlp_of_two_layers(student):
    """A ReLU between the layers and none after the last: 1 → -2 → 0 → 0, and -1 → 2 → 2 → -6."""
    mlp = student.linear.MLP((1, 1, 1))
    first, last = mlp.parameters()
    with torch.no_grad():
        first.fill_(-2.0)
        last.fill_(-3.0)
    x, expected = torch.tensor([[1.0], [-1.0]]), torch.tensor([[0.0], [-6.0]])
    expect.tensor(mlp(x), expected, of="MLP.forward", inputs="x [[1], [-1]], weights -2 and -3")


@pytest.mark.parametrize(("trainable_only", "expected"), [(False, 18), (True, 6)])
def test_count_parameters_of_the_example(student, trainable_only, expected):
    """MLP((4, 3, 2)) has 3·4 + 2·3 = 18 parameters.

    If its first layer is frozen, 6 of them are trainable.
    """
    mlp = student.linear.MLP((4, 3, 2))
    next(mlp.parameters()).requires_grad_(False)
    got = student.linear.count_parameters(mlp, trainable_only=trainable_only)
    expect.value(got, expected, of="count_parameters", inputs="MLP((4, 3, 2)), first layer frozen")
