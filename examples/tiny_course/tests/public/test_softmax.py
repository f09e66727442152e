"""softmax: the handout's example."""

import torch

from kit import expect


def test_softmax_of_the_worked_example(student):
    """Two equal scores get 1/2 each."""
    got = student.activations.softmax(torch.zeros(2))
    expect.tensor(got, torch.tensor([0.5, 0.5]), of="softmax", atol=1e-6, inputs="0, 0")
