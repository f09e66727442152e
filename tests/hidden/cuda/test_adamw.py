"""adamw on a GPU: the same steps, with moments where the parameters are."""

import torch

from tests import expect
from tests.probes import on_a_device as probes

OPTIONS = {"lr": 0.1, "betas": (0.8, 0.9), "eps": 1e-2, "weight_decay": 0.5}


def test_steps_on_a_gpu(student, rng, device):
    """Parameters on a GPU take the steps of torch.optim.AdamW there, and the moments are on it as well."""
    shapes = [(3,), (2, 4)]
    parameters = [torch.rand(s, generator=rng, dtype=torch.float64) + 0.5 for s in shapes]
    gradients = [[torch.randn(s, generator=rng, dtype=torch.float64) / 100 for s in shapes] for _ in range(4)]
    got = student.run(probes.adamw, device=device, parameters=parameters, gradients=gradients, options=OPTIONS)
    expect.value(sorted(set(got["devices"])), [device], of="AdamW", hint="torch.zeros_like(p) is where p is")
    leaves = [torch.nn.Parameter(p.clone()) for p in parameters]
    optimizer = torch.optim.AdamW(leaves, **OPTIONS)
    for step in gradients:
        for leaf, gradient in zip(leaves, step, strict=True):
            leaf.grad = gradient.clone()
        optimizer.step()
    for p, want in zip(got["tensors"], leaves, strict=False):
        expect.tensor(p, want.detach(), of="AdamW", atol=1e-5, name="a parameter after step 4")
