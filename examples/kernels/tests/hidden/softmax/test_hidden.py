"""softmax: compared with torch's operator in float64."""

import pytest
import torch

from kit import expect
from tests.probes import rows as probes


def check(student, x, hint):
    """Compare with torch's softmax in float64.

    An exponential, a sum and a division in float32 are right to about 1e-7 of the result each.
    """
    got = student.run(probes.softmax, x=x)
    expected = torch.softmax(x.double(), -1).float()
    expect.tensor(got, expected, of="softmax", rtol=1e-5, atol=1e-7, hint=hint)


@pytest.mark.harm("wrong number")
def test_each_row_by_itself(student, rng):
    """The entries of each row add up to 1."""
    check(student, torch.randn(5, 7, generator=rng), "is the sum that of the row?")


@pytest.mark.harm("wrong number")
def test_rows_of_very_different_size(student, rng):
    """Scores of 1000 give neither inf nor NaN, and neither do small ones beside them."""
    x = torch.randn(3, 4, generator=rng) + torch.tensor([[1000.0], [0.0], [-1000.0]])
    check(student, x, "softmax is the same for x and x minus the row's largest score")
