"""checkpoint across devices: a run saved on a GPU resumes there and on a CPU."""

import pytest
import torch

from kit import expect
from tests.probes import on_a_device as probes


@pytest.mark.harm("crash")
@pytest.mark.parametrize("way", ["there and back", "to a cpu", "from a cpu"])
def test_checkpoints_across_devices(student, rng, device, way):
    """A checkpoint from any device loads onto the model's device and gives equal next steps."""
    saved_on = "cpu" if way == "from a cpu" else device
    loaded_on = "cpu" if way == "to a cpu" else device
    weights = [torch.rand(s, generator=rng) for s in [(3, 4), (5,)]]
    gradients = [[torch.rand(w.shape, generator=rng) for w in weights] for _ in range(3)]
    run = {"weights": weights, "gradients": gradients, "seed": 7}
    got = student.run(probes.resumed, saved_on=saved_on, loaded_on=loaded_on, **run)
    expect.value(got["iteration"], 3, of="load_checkpoint", name="the iteration")
    hint = (
        "copy the values into the model's own tensors; use map_location to ignore the file's "
        "devices"
    )
    name = "the devices of parameters and moments"
    where = sorted(set(got["devices"]))
    expect.value(where, [loaded_on], of="load_checkpoint", name=name, hint=hint)
    leaves = [torch.nn.Parameter(w.double()) for w in weights]
    optimizer = torch.optim.AdamW(leaves, lr=0.1)
    for number, row in enumerate(gradients):
        if number == 2:
            for p, want in zip(got["tensors"][: len(leaves)], leaves, strict=True):
                name = "a parameter"
                expect.tensor(p.double(), want.detach(), of="load_checkpoint", atol=1e-5, name=name)
        for leaf, gradient in zip(leaves, row, strict=True):
            leaf.grad = gradient.double()
        optimizer.step()
    for p, want in zip(got["next_step"], leaves, strict=True):
        options = {"of": "load_checkpoint", "atol": 1e-5, "name": "a parameter one step later"}
        hint = "the optimizer's moments are part of the checkpoint"
        expect.tensor(p.double(), want.detach(), hint=hint, **options)


@pytest.mark.harm("trains worse")
def test_generator_of_the_gpu_goes_on(student, rng, device):
    """After a load, the GPU draws the same random numbers as it would have after the save."""
    weights = [torch.rand(3, generator=rng)]
    gradients = [[torch.rand(3, generator=rng)] for _ in range(2)]
    run = {"weights": weights, "gradients": gradients, "seed": 7}
    got = student.run(probes.resumed, saved_on=device, loaded_on=device, **run)
    hint = "torch.cuda.get_rng_state_all"
    name = "the next random numbers"
    expect.tensor(got["draws"][1], got["draws"][0], of="load_checkpoint", name=name, hint=hint)
