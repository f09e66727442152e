"""get_batch for a GPU: the same windows, copied from pinned memory."""

import numpy as np
import pytest
import torch

from kit import expect
from tests.probes import on_a_device as probes


@pytest.mark.harm("crash")
def test_batches_on_a_gpu(student, rng, device):
    """A batch for a GPU is on it, consists of windows of the data, and used pinned memory."""
    dataset = torch.randperm(5000, generator=rng).numpy().astype(np.uint16)
    got = student.run(probes.batch, device=device, dataset=dataset, size=16, length=9, seed=3)
    name, hint = "the devices of x and y", "x.to(device) and y.to(device)"
    expect.value(got["devices"], [device] * 2, of="get_batch", name=name, hint=hint)
    x, y = got["tensors"]
    reason = f"wrong shape of x: expected (16, 9), got {tuple(x.shape)}"
    expect.that(tuple(x.shape) == (16, 9), reason, of="get_batch")
    positions = {token: i for i, token in enumerate(dataset.tolist())}
    starts = torch.tensor([positions.get(token, 0) for token in x[:, 0].tolist()])
    windows = starts[:, None] + torch.arange(9)
    tokens = torch.from_numpy(dataset.astype(np.int64))
    expect.tensor(x, tokens[windows], of="get_batch", name="x")
    expect.tensor(y, tokens[windows + 1], of="get_batch", name="y")
    seen = bool(got["pinned"]) or device == "cpu"
    reason = "a copy from memory that is not pinned"
    expect.that(seen and all(got["pinned"]), reason, of="get_batch", hint="x.pin_memory().to(…)")
