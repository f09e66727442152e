"""relu: the handout's example."""

import torch

from kit import expect


def test_relu_of_the_worked_example(student):
    """-1, 0 and 2."""
    x = torch.tensor([-1.0, 0.0, 2.0])
    got = student.activations.relu(x)
    expect.tensor(got, torch.tensor([0.0, 0.0, 2.0]), of="relu", inputs="-1, 0, 2")
