"""softmax: compared with torch's own, in float64."""

import pytest
import torch

from tests import expect


def check(student, x, hint):
    """The softmax of x is torch's."""
    expect.tensor(student.activations.softmax(x), torch.softmax(x, -1), of="softmax", rtol=1e-9, hint=hint)


# Stays: it is the formula, and the other test is about how it is computed.
@pytest.mark.core
def test_softmax_over_the_last_dimension(student, rng):
    """Each row adds up to 1."""
    check(student, torch.randn(3, 5, generator=rng, dtype=torch.float64), "which dimension is summed over?")


def test_softmax_of_large_scores(student, rng):
    """Scores of 1000 and more are no reason for inf or NaN."""
    x = 1000 + torch.randn(5, 4, generator=rng, dtype=torch.float64)
    check(student, x, "softmax is the same for x and x - max(x)")
