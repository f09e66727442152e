"""gradient_clipping on a GPU: one norm of all gradients, computed there."""

import pytest
import torch

from kit import expect
from tests.probes import on_a_device as probes


@pytest.mark.harm("crash")
def test_norm_on_a_gpu(student, rng, device):
    """Gradients on a GPU are clipped there with the same results as on a CPU."""
    gradients = [torch.randn(s, generator=rng, dtype=torch.float64) for s in [(3, 5), (7,)]]
    norm = float(torch.cat([g.flatten() for g in gradients]).norm())
    run = {"gradients": gradients, "max_norm": norm / 3}
    on_cpu = student.run(probes.clipped, device="cpu", **run)["tensors"][1:]
    got = student.run(probes.clipped, device=device, **run)
    name = "the devices of the gradients"
    expect.value(got["devices"][1:], [device] * 2, of="clip_gradient_norm", name=name)
    for clipped, want, before in zip(got["tensors"][1:], on_cpu, gradients, strict=True):
        expect.kind(want, torch.Tensor, of="clip_gradient_norm", name="a gradient on a CPU")
        expect.tensor(clipped, want, of="clip_gradient_norm", rtol=1e-5, name="a gradient")
        reason = "a gradient above the limit did not change"
        expect.that(bool((clipped != before).any()), reason, of="clip_gradient_norm")
