"""gradient_clipping on a GPU: one norm of gradients that are there."""

import torch

from tests import expect
from tests.probes import on_a_device as probes


def test_norm_on_a_gpu(student, rng, device):
    """Gradients on a GPU are scaled there, together, to the norm asked for."""
    gradients = [torch.randn(s, generator=rng, dtype=torch.float64) for s in [(3, 5), (7,)]]
    norm = float(torch.cat([g.flatten() for g in gradients]).norm())
    for max_norm, factor in [(norm / 3, 1 / 3), (norm * 2, 1.0)]:
        got = student.run(probes.clipped, device=device, gradients=gradients, max_norm=max_norm)
        expect.value(got["devices"][1:], [device] * 2, of="clip_gradient_norm")
        for scaled, gradient in zip(got["tensors"][1:], gradients, strict=True):
            expect.tensor(scaled, gradient * factor, of="clip_gradient_norm", rtol=1e-5, name="a gradient")
