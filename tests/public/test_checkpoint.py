"""checkpoint: everything that a run needs to continue, in one file. Handout §10.1.

There are four stages: parameters and optimizer, random states, atomic writing, and safe loading.
`pytest tests/public -k "checkpoint and stage_1"` runs the tests of one stage.
"""

import io
import os
import random

import numpy as np
import torch
from torch import nn

from kit import expect


def stepped(outputs=2):
    """A layer and an AdamW after one step, so that there are moments to save."""
    layer = nn.Linear(3, outputs)
    optimizer = torch.optim.AdamW(layer.parameters(), lr=0.1)
    for p in layer.parameters():
        p.grad = torch.randn_like(p)
    optimizer.step()
    return layer, optimizer


def test_stage_1_model_optimizer_and_iteration_come_back(student, tmp_path):
    """A checkpoint of iteration 7 is loaded into another layer and another optimizer."""
    layer, optimizer = stepped()
    other, other_optimizer = stepped()
    student.checkpointing.save_checkpoint(layer, optimizer, 7, tmp_path / "checkpoint")
    got = student.checkpointing.load_checkpoint(
        str(tmp_path / "checkpoint"), other, other_optimizer
    )
    expect.value(got, 7, of="load_checkpoint", name="the iteration")
    expect.tensor(other.weight, layer.weight, of="load_checkpoint", name="weight")
    moment, expected = (o.state_dict()["state"][0]["exp_avg"] for o in (other_optimizer, optimizer))
    expect.tensor(moment, expected, of="load_checkpoint", name="exp_avg")
    files = [p.name for p in tmp_path.iterdir()]
    expect.value(
        files,
        ["checkpoint"],
        of="save_checkpoint",
        name="all files",
        hint="write one file and no other",
    )


def test_stage_2_generators_go_on(student):
    """After a load, torch, numpy and random draw the same numbers as after the save."""
    layer, optimizer = stepped()
    out = io.BytesIO()
    student.checkpointing.save_checkpoint(layer, optimizer, 0, out)
    expected = torch.rand(1).item(), float(np.random.rand()), random.random()
    out.seek(0)
    student.checkpointing.load_checkpoint(out, layer, optimizer)
    got = torch.rand(1).item(), float(np.random.rand()), random.random()
    for name, number, want in zip(
        ("torch.rand", "np.random.rand", "random.random"), got, expected, strict=True
    ):
        expect.number(
            number, want, of="load_checkpoint", tolerance=0, name=f"{name} after the load"
        )


class Unwritable(nn.Linear):
    """A layer whose state cannot be written completely, as if the disk were full."""

    def get_extra_state(self):
        return self

    def __reduce__(self):
        raise OSError("no space left")


def test_stage_3_a_write_that_fails_leaves_the_old_file(student, tmp_path):
    """The error is raised, the old checkpoint is unchanged, and there is no other file."""
    layer, optimizer = stepped()
    path = tmp_path / "checkpoint"
    student.checkpointing.save_checkpoint(layer, optimizer, 1, path)
    before = path.read_bytes()
    with expect.raises(OSError, of="save_checkpoint", when="the checkpoint cannot be written"):
        student.checkpointing.save_checkpoint(Unwritable(3, 2), optimizer, 2, path)
    expect.that(path.read_bytes() == before, "the old checkpoint has changed", of="save_checkpoint")
    files = [p.name for p in tmp_path.iterdir()]
    expect.value(
        files,
        ["checkpoint"],
        of="save_checkpoint",
        name="all files",
        hint="who removes the temporary file?",
    )


class Call:
    """An object whose pickle creates a folder when it is loaded."""

    def __init__(self, folder):
        self.folder = folder

    def __reduce__(self):
        return os.mkdir, (str(self.folder),)


def test_stage_4_a_file_is_data_and_no_program(student, tmp_path):
    """A file that would run code when it is loaded is refused, and its code does not run."""
    torch.save({"model": Call(tmp_path / "made")}, tmp_path / "checkpoint")
    of, hint = "load_checkpoint", "torch.load(..., weights_only=True)"
    with expect.raises(Exception, of=of, when="a file would run code", hint=hint):
        student.checkpointing.load_checkpoint(tmp_path / "checkpoint", *stepped())
    expect.that(not (tmp_path / "made").exists(), "code from the file ran", of=of, hint=hint)


def test_stage_4_a_checkpoint_that_does_not_fit_changes_nothing(student, tmp_path):
    """A checkpoint of a two-output layer does not fit a layer with three outputs.

    The layer, its optimizer and the RNG state do not change.
    """
    student.checkpointing.save_checkpoint(*stepped(), 1, tmp_path / "checkpoint")
    layer, optimizer = stepped(outputs=3)
    moment, weight = (
        optimizer.state_dict()["state"][0]["exp_avg"].clone(),
        layer.weight.detach().clone(),
    )
    state = torch.get_rng_state()
    with expect.raises(Exception, of="load_checkpoint", when="the layer has a different shape"):
        student.checkpointing.load_checkpoint(tmp_path / "checkpoint", layer, optimizer)
    expect.tensor(layer.weight, weight, of="load_checkpoint", name="weight")
    expect.tensor(
        optimizer.state_dict()["state"][0]["exp_avg"], moment, of="load_checkpoint", name="exp_avg"
    )
    expect.tensor(torch.get_rng_state(), state, of="load_checkpoint", name="torch.get_rng_state()")
