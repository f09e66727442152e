"""relu: compared with torch's operator."""

import pytest
import torch

from kit import expect


@pytest.mark.harm("wrong number")
def test_relu_of_numbers_of_either_sign(student, rng):
    """Negative numbers become 0; all others stay the same."""
    x = torch.randn(3, 5, generator=rng)
    expect.tensor(student.activations.relu(x), torch.relu(x), of="relu", hint="max(0, x)")
