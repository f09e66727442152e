"""adamw on a GPU: the same steps as on a CPU, with moments on the parameters' device."""

import pytest
import torch

from kit import expect
from tests.probes import on_a_device as probes

OPTIONS = {"lr": 0.1, "betas": (0.8, 0.9), "eps": 1e-2, "weight_decay": 0.5}


@pytest.mark.harm("crash")
def test_steps_on_a_gpu(student, rng, device):
    """Parameters on a GPU take the same steps as on a CPU, and their moments are on the GPU."""
    shapes = [(3,), (2, 4)]
    parameters = [torch.rand(s, generator=rng, dtype=torch.float64) + 0.5 for s in shapes]
    gradients = [
        [torch.randn(s, generator=rng, dtype=torch.float64) / 100 for s in shapes] for _ in range(4)
    ]
    run = {"parameters": parameters, "gradients": gradients, "options": OPTIONS}
    on_cpu = student.run(probes.adamw, device="cpu", **run)["tensors"][:2]
    got = student.run(probes.adamw, device=device, **run)
    hint = "torch.zeros_like(p) is on p's device"
    name = "the devices of parameters and moments"
    expect.value(sorted(set(got["devices"])), [device], of="AdamW", name=name, hint=hint)
    for p, want, before in zip(got["tensors"][:2], on_cpu, parameters, strict=True):
        expect.tensor(p, want, of="AdamW", atol=1e-5, name="a parameter after step 4")
        reason = "a parameter does not change although it has a gradient"
        expect.that(bool((p != before).any()), reason, of="AdamW")
