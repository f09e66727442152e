"""softmax: compared with torch's operator in float64."""

import pytest
import torch

from kit import expect


def check(student, x, hint):
    """Compare softmax(x) with torch."""
    got = student.activations.softmax(x)
    expect.tensor(got, torch.softmax(x, -1), of="softmax", rtol=1e-9, hint=hint)


# Stays: this test checks the formula; the other test is about how the formula is computed.
@pytest.mark.harm("wrong number")
def test_softmax_over_the_last_dimension(student, rng):
    """Each row adds up to 1."""
    x = torch.randn(3, 5, generator=rng, dtype=torch.float64)
    check(student, x, "which dimension is summed over?")


@pytest.mark.harm("wrong number")
def test_softmax_of_large_scores(student, rng):
    """Scores of 1000 and more give neither inf nor NaN."""
    x = 1000 + torch.randn(5, 4, generator=rng, dtype=torch.float64)
    check(student, x, "softmax is the same for x and x - max(x)")
