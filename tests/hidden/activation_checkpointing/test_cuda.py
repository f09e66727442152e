"""activation_checkpointing on a GPU: the GPU's generator draws the same dropout mask twice."""

import pytest
import torch

from kit import expect
from tests.probes import on_a_device as probes


@pytest.mark.harm("trains worse")
def test_dropout_on_a_gpu(student, rng, device):
    """Backward drops the same entries as forward and keeps the GPU's generator state."""
    x, weight = torch.rand(40, 6, generator=rng) + 0.5, torch.rand(6, 5, generator=rng) + 0.5
    got = student.run(probes.recomputed, device=device, x=x, weight=weight)
    y, x_gradient, w_gradient, unmoved = got["tensors"]
    name = "the devices of the output and the gradients"
    expect.value(got["devices"][:3], [device] * 3, of="checkpoint", name=name)
    expect.value(tuple(y.shape), (40, 5), of="checkpoint", name="the output's shape")
    mask = (y != 0).float() * 2  # the inverse of the fraction that is kept
    expect.tensor(y.float(), (x @ weight) * mask, of="checkpoint", rtol=1e-4, name="the output")
    hint = "save the GPU's random state before the first call, and set it for the second"
    name = "the gradient of the input"
    expect.tensor(x_gradient, mask @ weight.T, of="checkpoint", rtol=1e-4, name=name, hint=hint)
    name = "the gradient of the weight"
    expect.tensor(w_gradient, x.T @ mask, of="checkpoint", rtol=1e-4, name=name, hint=hint)
    name = "whether the GPU's generator state is unchanged"
    hint = "restore the GPU's random state after the second call"
    expect.value(unmoved, True, of="checkpoint", name=name, hint=hint)
