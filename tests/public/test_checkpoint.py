"""checkpoint: everything that a run needs to continue, in one file. Handout §10.1.

There are four stages: parameters and optimizer, random states, atomic writing, and safe loading.
`python -m pytest tests/public -k "checkpoint and stage_1"` runs the tests of one stage.
"""

import io
import os
import random

import numpy as np
import pytest
import torch
from torch import nn

from kit import expect
from kit.student import watching_generators
from tests.probes import checkpointing as probes


class Layer(nn.Linear):
    """A linear layer of three inputs with a buffer, and perhaps one more parameter or buffer."""

    def __init__(self, outputs=2, bias=True, more=None):
        super().__init__(3, outputs, bias)
        self.register_buffer("seen", torch.rand(3))
        self.more = more


def stepped(outputs=2):
    """A layer and an AdamW after one step, so that there are moments to save."""
    layer = Layer(outputs)
    optimizer = torch.optim.AdamW(layer.parameters(), lr=0.1)
    for p in layer.parameters():
        p.grad = torch.randn_like(p)
    optimizer.step()
    return layer, optimizer


def test_stage_1_model_optimizer_and_iteration_come_back(student, tmp_path):
    """A checkpoint of iteration 7 is loaded into another layer and another optimizer."""
    layer, optimizer = stepped()
    other, other_optimizer = stepped()
    path = tmp_path / "checkpoint"
    student.checkpointing.save_checkpoint(layer, optimizer, 7, path)
    got = student.checkpointing.load_checkpoint(str(path), other, other_optimizer)
    expect.value(got, 7, of="load_checkpoint", name="the iteration, saved as 7")
    expect.tensor(other.weight, layer.weight, of="load_checkpoint", name="weight")
    moment, expected = (o.state_dict()["state"][0]["exp_avg"] for o in (other_optimizer, optimizer))
    hint = "the optimizer's state_dict is saved and loaded, too"
    expect.tensor(moment, expected, of="load_checkpoint", name="exp_avg", hint=hint)
    files = [p.name for p in tmp_path.iterdir()]
    hint = "write one file and no other"
    expect.value(files, ["checkpoint"], of="save_checkpoint", name="all files", hint=hint)


class Mixed(nn.Module):
    """Parameters of three dtypes, of which two are tied, and three buffers.

    One buffer is not persistent, so it is not in the state_dict.
    """

    def __init__(self, fill):
        super().__init__()
        self.wide = nn.Parameter(torch.full((2,), fill / 3, dtype=torch.float64))
        self.narrow = nn.Parameter(torch.full((3,), fill, dtype=torch.bfloat16))
        self.narrow.requires_grad_(False)
        self.one = nn.Linear(2, 2)
        self.two = nn.Linear(2, 2)
        self.two.weight = self.one.weight
        self.register_buffer("mean", torch.full((2,), fill))
        self.register_buffer("count", torch.tensor(int(fill)))
        self.register_buffer("scratch", torch.zeros(1), persistent=False)


def mixed(fill):
    """A Mixed with gradients, half of it in eval mode, and an SGD of two groups."""
    model = Mixed(fill)
    model.two.eval()
    groups = [
        {"params": [model.wide, *model.one.parameters()], "weight_decay": fill / 100},
        {"params": [model.two.bias, model.narrow], "lr": fill},
    ]
    optimizer = torch.optim.SGD(groups, lr=0.1, momentum=0.9)
    for p in model.parameters():
        p.grad = torch.full_like(p, fill)
    optimizer.step()
    return model, optimizer


def test_stage_1_every_tensor_and_option_comes_back(student, tmp_path):
    """Buffers, dtypes, the moments and both groups' options are those of the save."""
    (model, optimizer), (other, other_optimizer) = mixed(1.0), mixed(7.0)
    student.checkpointing.save_checkpoint(model, optimizer, 3, tmp_path / "checkpoint")
    student.checkpointing.load_checkpoint(tmp_path / "checkpoint", other, other_optimizer)
    for name, want in model.state_dict().items():
        got = other.state_dict()[name]
        hint = "buffers are in model.state_dict(), and not in parameters()"
        hint = hint if name == "mean" else None
        name = f"{name} ({want.dtype})"
        expect.tensor(got, want, of="load_checkpoint", name=name, hint=hint)
    for got, want in zip(other_optimizer.param_groups, optimizer.param_groups, strict=True):
        for option in ("lr", "weight_decay"):
            name, hint = f"{option} of a group", "a group's options are in optimizer.state_dict()"
            expect.value(got[option], want[option], of="load_checkpoint", name=name, hint=hint)
    for p, q in zip(model.parameters(), other.parameters(), strict=True):
        want = optimizer.state[p].get("momentum_buffer")
        got = other_optimizer.state[q].get("momentum_buffer")
        expect.tensor(got, want, of="load_checkpoint", name=f"a momentum buffer ({p.dtype})")


@pytest.mark.parametrize("with_state", [0, 1])
def test_stage_1_a_state_that_is_not_there_comes_back(student, tmp_path, with_state):
    """Before its first gradient, a parameter has no state: a load takes away what is there."""
    layer, (other, other_optimizer) = Layer(), stepped()
    optimizer = torch.optim.AdamW(layer.parameters())
    if with_state:
        layer.weight.grad = torch.ones_like(layer.weight)
        optimizer.step()
    student.checkpointing.save_checkpoint(layer, optimizer, 0, tmp_path / "checkpoint")
    student.checkpointing.load_checkpoint(tmp_path / "checkpoint", other, other_optimizer)
    got = len(other_optimizer.state_dict()["state"])
    name = f"the number of parameters with state, {with_state} in the checkpoint,"
    expect.value(got, with_state, of="load_checkpoint", name=name)


def test_stage_1_a_load_changes_nothing_but_values(student, tmp_path):
    """Parameters stay the same objects, and modes, gradients and requires_grad as they are."""
    model, optimizer = mixed(1.0)
    parameters, buffers = dict(model.named_parameters()), dict(model.named_buffers())
    for of in ("save_checkpoint", "load_checkpoint"):
        if of == "save_checkpoint":
            student.checkpointing.save_checkpoint(model, optimizer, 3, tmp_path / "checkpoint")
        else:
            student.checkpointing.load_checkpoint(tmp_path / "checkpoint", model, optimizer)
        is_same = all(p is parameters[name] for name, p in model.named_parameters())
        hint = "copy values into the parameters and buffers that are there"
        expect.that(is_same, "a parameter is no longer the same object", of=of, hint=hint)
        is_same = all(b is buffers[name] for name, b in model.named_buffers())
        expect.that(is_same, "a buffer is no longer the same object", of=of, hint=hint)
        is_tied = model.one.weight is model.two.weight
        expect.that(is_tied, "two tied weights are no longer tied", of=of, hint=hint)
        got = [model.training, model.one.training, model.two.training]
        name = "training of the model and of its two layers"
        expect.value(got, [True, True, False], of=of, name=name)
        got = model.narrow.requires_grad, model.wide.requires_grad
        expect.value(got, (False, True), of=of, name="requires_grad of two parameters")
        for name, p in model.named_parameters():
            expect.that(p.grad is not None, f"the gradient of {name} is gone", of=of)
            expect.tensor(p.grad, torch.ones_like(p), of=of, name=f"the gradient of {name}")


def test_stage_1_file_like_objects(student):
    """A checkpoint is written behind a header, and read from there; the object stays open."""
    (layer, optimizer), (other, other_optimizer) = stepped(), stepped()
    out = io.BytesIO(b"a header")
    out.seek(8)
    student.checkpointing.save_checkpoint(layer, optimizer, 5, out)
    expect.that(not out.closed, "the file-like object is closed", of="save_checkpoint")
    hint = "write from the object's current position, without seek"
    is_there = out.getvalue().startswith(b"a header")
    expect.that(is_there, "the header is gone", of="save_checkpoint", hint=hint)
    expect.that(len(out.getvalue()) > 8, "nothing is written", of="save_checkpoint")
    out.seek(8)
    got = student.checkpointing.load_checkpoint(out, other, other_optimizer)
    expect.value(got, 5, of="load_checkpoint", name="the iteration")
    expect.tensor(other.weight, layer.weight, of="load_checkpoint", name="weight")


def test_stage_1_a_bare_file_name_and_a_second_save(student, tmp_path, monkeypatch):
    """A path may be a name in the current folder. The second save replaces the first one."""
    monkeypatch.chdir(tmp_path)
    for iteration in (1, 2):
        layer, optimizer = stepped()
        student.checkpointing.save_checkpoint(layer, optimizer, iteration, "checkpoint")
        other, other_optimizer = stepped()
        got = student.checkpointing.load_checkpoint("checkpoint", other, other_optimizer)
        expect.value(got, iteration, of="load_checkpoint", name="the iteration")
        expect.tensor(other.weight, layer.weight, of="load_checkpoint", name="weight")
    files = [p.name for p in tmp_path.iterdir()]
    expect.value(files, ["checkpoint"], of="save_checkpoint", name="all files")


def drawn():
    """Numbers from the three global generators."""
    return {
        "torch.rand": torch.rand(1).item(),
        "np.random.randn": float(np.random.randn()),
        "np.random.rand": float(np.random.rand()),
        "random.gauss": random.gauss(0, 1),
        "random.random": random.random(),
    }


def test_stage_2_saving_draws_no_number(student, tmp_path):
    """A save to a path leaves the generators of torch, numpy and random as they were."""
    made, hint = stepped(), "tempfile has a generator of its own"
    with watching_generators() as changed:
        student.checkpointing.save_checkpoint(*made, 1, tmp_path / "checkpoint")
    for name in changed:
        expect.that(False, f"saving draws a number from {name}", of="save_checkpoint", hint=hint)


def test_stage_2_generators_go_on(student):
    """After a load, torch, numpy and random draw the same numbers as after the save.

    The first normal number after the save was already drawn before it.
    """
    layer, optimizer = stepped()
    out = io.BytesIO()
    np.random.randn(), random.gauss(0, 1)  # each keeps a second normal number for the next call
    student.checkpointing.save_checkpoint(layer, optimizer, 0, out)
    expected = drawn()
    out.seek(0)
    student.checkpointing.load_checkpoint(out, layer, optimizer)
    for (name, number), want in zip(drawn().items(), expected.values(), strict=True):
        library = name.rpartition(".")[0]
        hint = f"{library} has a generator of its own: save and load its whole state, not its seed"
        name = f"{name} after the load"
        expect.number(number, want, of="load_checkpoint", tolerance=0, name=name, hint=hint)


def test_stage_2_a_cpu_loads_what_a_gpu_saved(student):
    """The file says of its tensors that they were on a GPU, which this machine may lack."""
    saved = {"p0": torch.rand(3, 4), "p1": torch.rand(3)}
    loaded = probes.cpu_loads_what_a_gpu_saved(student, parameters=saved)
    for name, values in saved.items():
        expect.tensor(loaded[name], values, of="load_checkpoint", name=f"the parameter {name}")


class Unwritable(nn.Linear):
    """A layer whose state cannot be written completely, as if the disk were full."""

    def get_extra_state(self):
        return self

    def __reduce__(self):
        raise OSError("no space left")


def is_old_checkpoint(path, before):
    """Check that the checkpoint of the first save is still at the path."""
    of, hint = "save_checkpoint", "write to another file, and rename it when it is complete"
    expect.that(path.exists(), "the old checkpoint is gone", of=of, hint=hint)
    expect.that(path.read_bytes() == before, "the old checkpoint has changed", of=of, hint=hint)


def test_stage_3_a_write_that_fails_leaves_the_old_file(student, tmp_path):
    """The error is raised, the old checkpoint is unchanged, and there is no other file."""
    layer, optimizer = stepped()
    path = tmp_path / "checkpoint"
    student.checkpointing.save_checkpoint(layer, optimizer, 1, path)
    before = path.read_bytes()
    raised = False
    try:
        student.checkpointing.save_checkpoint(Unwritable(3, 2), optimizer, 2, path)
    except OSError:
        raised = True
    hint = "let the exception propagate"
    expect.that(raised, "it hides an OSError of the write", of="save_checkpoint", hint=hint)
    is_old_checkpoint(path, before)
    files = [p.name for p in tmp_path.iterdir()]
    hint = "who removes the temporary file?"
    expect.value(files, ["checkpoint"], of="save_checkpoint", name="all files", hint=hint)


@pytest.mark.parametrize("error", [OSError, KeyboardInterrupt])
def test_stage_3_an_error_of_the_sync_leaves_the_old_file(student, tmp_path, monkeypatch, error):
    """If os.fsync fails, or Ctrl-C comes meanwhile, the old file is left and nothing else."""
    path, (layer, optimizer) = tmp_path / "checkpoint", stepped()
    student.checkpointing.save_checkpoint(layer, optimizer, 1, path)
    before = path.read_bytes()
    seen = []

    def sync(file):
        seen.append(file)
        raise error("in os.fsync")

    monkeypatch.setattr(os, "fsync", sync)
    monkeypatch.setattr(os, "fdatasync", sync, raising=False)
    raised = ""
    try:
        student.checkpointing.save_checkpoint(layer, optimizer, 2, path)
    except (OSError, KeyboardInterrupt) as e:
        raised = type(e).__name__
    of = "save_checkpoint"
    expect.that(bool(seen), "os.fsync is not called", of=of, hint="sync before the rename")
    expect.value(raised, error.__name__, of=of, name="what the caller gets")
    is_old_checkpoint(path, before)
    files = [p.name for p in tmp_path.iterdir()]
    hint = "KeyboardInterrupt is no Exception" if error is KeyboardInterrupt else None
    expect.value(files, ["checkpoint"], of=of, name="all files after the error", hint=hint)


@pytest.mark.parametrize("is_first", [False, True])
def test_stage_3_the_new_file_is_complete_before_it_gets_its_name(
    student, tmp_path, monkeypatch, is_first
):
    """At the sync, all of the new file is in the folder, and the old one, if any, is untouched.

    The file then gets its name by a rename. A file that a killed process left behind under the
    temporary name does not prevent the next save.
    """
    path, of = tmp_path / "checkpoint", "save_checkpoint"
    if not is_first:
        student.checkpointing.save_checkpoint(*stepped(), 1, path)
    before = None if is_first else path.read_bytes()

    def is_old():
        return (path.read_bytes() if path.exists() else None) == before

    synced, renamed = [], []

    def sync(file):
        others = [p for p in tmp_path.rglob("*") if p.is_file() and p != path]
        number = file if isinstance(file, int) else file.fileno()
        synced.append((os.fstat(number).st_size, others, is_old()))

    def rename(source, target, **more):
        renamed.append((len(synced), is_old()))
        original(source, target, **more)

    original = os.replace
    with monkeypatch.context() as patch:
        for name in ("fsync", "fdatasync"):
            patch.setattr(os, name, sync, raising=False)
        for name in ("replace", "rename"):
            patch.setattr(os, name, rename)
        student.checkpointing.save_checkpoint(*stepped(), 2, path)
    hint = "os.replace gives the complete file its name"
    expect.that(bool(renamed), "the checkpoint does not get its name by a rename", of=of, hint=hint)
    expect.that(path.exists(), "no file has the checkpoint's name", of=of, hint=hint)
    is_synced = any(size == path.stat().st_size for size, _, _ in synced[: renamed[-1][0]])
    hint = "write, flush and os.fsync before os.replace"
    reason = "the file is not synced completely before it gets its name"
    expect.that(is_synced, reason, of=of, hint=hint)
    names = [p for _, others, _ in synced for p in others]
    hint = "the system's temporary folder may be on another disk"
    expect.that(bool(names), "the temporary file is in another folder", of=of, hint=hint)
    is_whole = all(old for *_, old in synced) and all(old for _, old in renamed)
    hint = "os.replace replaces an existing file in one step"
    expect.that(is_whole, "the path changes before the rename", of=of, hint=hint)
    for name in names:
        name.parent.mkdir(exist_ok=True)
        name.write_bytes(b"left by a killed process" * 10_000)
    try:
        student.checkpointing.save_checkpoint(*stepped(), 3, path)
    except OSError:
        expect.that(False, "a file that a killed process left behind prevents the next save", of=of)
    got = student.checkpointing.load_checkpoint(path, *stepped())
    expect.value(got, 3, of="load_checkpoint", name="the iteration")


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
    with expect.raises(Exception, of=of, when="a file would run code"):
        student.checkpointing.load_checkpoint(tmp_path / "checkpoint", *stepped())
    expect.that(not (tmp_path / "made").exists(), "code from the file ran", of=of, hint=hint)


def with_adamw(groups=1, **options):
    """A layer and an AdamW, with all its parameters in one group or one in each."""
    layer = Layer(**options)
    parameters = [{"params": [p]} for p in layer.parameters()]
    return layer, torch.optim.AdamW(parameters if groups > 1 else layer.parameters())


UNFIT = {
    "the layer has a different shape": lambda: stepped(outputs=3),
    "the layer has another parameter more": lambda: with_adamw(more=nn.Parameter(torch.ones(2))),
    "the layer has another buffer more": lambda: with_adamw(more=nn.Buffer(torch.ones(2))),
    "the layer has no bias": lambda: with_adamw(bias=False),
    "the optimizer has two groups instead of one": lambda: with_adamw(groups=2),
}


def contents(layer, optimizer):
    """All that a load may change, by name."""
    found = {name: p.detach().clone() for name, p in layer.named_parameters()}
    found["the buffer"] = layer.seen.clone()
    for number, p in enumerate(layer.parameters(), 1):
        which = f"parameter {number} of the layer"
        found[f"the gradient of {which}"] = torch.zeros(0) if p.grad is None else p.grad.clone()
        for name, value in optimizer.state[p].items() if p in optimizer.state else ():
            found[f"{name} of {which}"] = value.clone()
    lrs = [float(group["lr"]) for group in optimizer.param_groups]
    found["the groups' learning rates"] = torch.tensor(lrs)
    found["torch.get_rng_state()"] = torch.get_rng_state()
    found["np.random.get_state()"] = torch.from_numpy(np.random.get_state()[1].astype("int64"))
    found["random.getstate()"] = torch.tensor(random.getstate()[1], dtype=torch.int64)
    return found


@pytest.mark.parametrize("when", UNFIT)
def test_stage_4_a_checkpoint_that_does_not_fit_changes_nothing(student, tmp_path, when):
    """A checkpoint of a layer with two outputs is refused, and nothing changes."""
    student.checkpointing.save_checkpoint(*stepped(), 1, tmp_path / "checkpoint")
    layer, optimizer = UNFIT[when]()
    optimizer.param_groups[0]["lr"] = 0.25
    for p in layer.parameters():
        p.grad = torch.ones_like(p)
    layer.eval()
    random.random(), np.random.rand(700), torch.rand(700)
    before, buffer = contents(layer, optimizer), layer.seen
    with expect.raises(Exception, of="load_checkpoint", when=when):
        student.checkpointing.load_checkpoint(tmp_path / "checkpoint", layer, optimizer)
    hint = "put everything back if a later part does not fit"
    for name, got in contents(layer, optimizer).items():
        name_after = f"{name}, after a load that was refused"
        want = before.get(name, torch.zeros(0))
        expect.tensor(got, want, of="load_checkpoint", name=name_after, hint=hint)
    expect.value(layer.training, False, of="load_checkpoint", name="training")
    reason = "the buffer is another tensor after a load that was refused"
    expect.that(layer.seen is buffer, reason, of="load_checkpoint")


def test_stage_4_a_damaged_or_missing_file_is_refused(student, tmp_path):
    """A file that ends early, an empty one and none at all raise an exception."""
    path = tmp_path / "checkpoint"
    student.checkpointing.save_checkpoint(*stepped(), 1, path)
    whole = path.read_bytes()
    files = {"ends early": whole[: len(whole) // 2], "is empty": b""}
    for what, content in files.items():
        path.write_bytes(content)
        with expect.raises(Exception, of="load_checkpoint", when=f"the file {what}"):
            student.checkpointing.load_checkpoint(path, *stepped())
    path.unlink()
    with expect.raises(Exception, of="load_checkpoint", when="there is no file"):
        student.checkpointing.load_checkpoint(path, *stepped())
