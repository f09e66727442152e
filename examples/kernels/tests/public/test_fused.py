"""fused: the handout's example."""

import torch

from kit import expect
from tests.probes import fused as probes


def test_fused_of_the_worked_example(student):
    """Two rows: the formula in float64 has the same values."""
    student.run(probes.prepare, seed=0, rows=2, columns=8)
    student.run(probes.call, side="student")
    got = student.run(probes.rows_of_the_output, at=[0, 1])
    x, y = (part.double() for part in probes.inputs(0, 2, 8))
    expected = 30 * torch.tanh(x / 30) * torch.sigmoid(y) + x
    expect.tensor(got, expected.float(), of="compiled", rtol=1e-5, atol=1e-4)
