"""checkpoint: what is restored in another process, what a crash leaves, and what is refused.

Accepted on purpose: any layout of the file, any name and permissions of the temporary file, and
fdatasync instead of fsync.

The state to be restored is known in advance or comes from a run that never stops, and all of it is
compared bit by bit.
"""

import random

import numpy as np
import pytest
import torch

from tests.hidden import ExpectOf, integer
from tests.probes import checkpointing as probes

NAME = "folder/checkpoint"
saving, loading = ExpectOf("save_checkpoint"), ExpectOf("load_checkpoint")


def check_tensors(got, expected, *, of, hint=None):
    of.that(got.keys() == expected.keys(), "other names come back than were saved", hint=hint)
    for name, want in expected.items():
        of.tensor(got[name], want, name=name, hint=hint)


# --- what comes back


@pytest.mark.stage(1)
@pytest.mark.harm("trains worse")
def test_parameters_and_buffers_come_back(student, rng):
    """Every parameter and buffer is restored bit by bit, for any dtype.

    Frozen parameters are, too. A buffer that is not in the state_dict is no obstacle.
    """
    parameters = {
        "a": torch.randn(3, 5, generator=rng) * torch.tensor([1e-8, 1e-4, 1.0, 100.0, 1e4]),
        "b": torch.randn(4, generator=rng, dtype=torch.float64),
        "c": torch.randn(2, 3, generator=rng).to(torch.bfloat16),
        "g": torch.randn(3, generator=rng).half(),
        "d": torch.randn((), generator=rng),
        "f": torch.randn(5, 3, generator=rng).T,
    }
    buffers = {
        "running_mean": torch.randn(4, generator=rng),
        "count": torch.tensor(integer(rng, 2**40, 2**50)),
        "mask": torch.rand(6, generator=rng) < 0.5,
    }
    got = student.run(probes.state_after_load, parameters=parameters, buffers=buffers)
    hint = "model.state_dict() contains the parameters and the buffers"
    check_tensors(got, {**parameters, **buffers}, of=loading, hint=hint)


@pytest.mark.stage(1)
@pytest.mark.harm("trains worse")
def test_the_optimizer_comes_back(student, rng):
    """The optimizer's moments, step counts and current group options are restored.

    They replace the state of an optimizer that may have done more steps or fewer.
    """
    parameters = [torch.randn(shape, generator=rng) for shape in [(3, 4), (5,), (2,)]]
    parameters[2] = parameters[2].double() / 3  # float32 does not have these numbers
    wide = {"generator": rng, "dtype": torch.float64}
    rows = [[torch.randn(p.shape, **wide).to(p) for p in parameters] for _ in range(3)]
    some = [[row[0], None, row[2]] for row in rows]  # the second parameter has no state
    runs = [("AdamW", rows, []), ("AdamW", some, rows[:1]), ("AdamW", [], rows[:2])]
    runs += [("SGD", rows, some)]
    got = student.run(probes.optimizers_after_load, parameters=parameters, runs=runs)
    hint = "optimizer.state_dict() contains each parameter's state and each group's options"
    for after, want in zip(got, probes.optimizer_states(parameters, runs), strict=True):
        check_tensors(after["state"], want["state"], of=loading, hint=hint)
        loading.value(after["groups"], want["groups"], name="the groups' options", hint=hint)


def check_draws(student, rng, expected, hint):
    """Check that after a load generators draw what new ones draw that were used as much."""
    seed = integer(rng, 0, 2**30)
    generators = expected(seed)
    got = student.run(probes.draws, seed=seed, sources=list(generators))
    for source, draw in generators.items():
        draw()  # before the save
        reason = f"after the load, {source} draws other numbers than it would have after the save"
        loading.that(got[source] == draw(), reason, hint=hint[source])


def of_torch(seed):
    g = torch.Generator().manual_seed(seed)
    draws = (torch.rand, 3), (torch.randn, 2)
    return {"torch": lambda: [x for draw, n in draws for x in draw(n, generator=g).tolist()]}


def of_numpy_and_python(seed):
    n, r = np.random.RandomState(seed), random.Random(seed)
    return {
        "numpy": lambda: [float(x) for x in (*n.rand(3), n.randn(), n.randint(1000))],
        "random": lambda: [r.random(), r.gauss(0, 1), float(r.randrange(1000))],
    }


# Stays: a whole run also fails without it, but does not show what is missing.
@pytest.mark.stage(2)
@pytest.mark.harm("trains worse")
def test_torchs_generator_goes_on(student, rng):
    """After a load, torch draws the same random numbers as it would have after the save."""
    check_draws(student, rng, of_torch, {"torch": "torch.get_rng_state()"})


@pytest.mark.stage(2)
@pytest.mark.harm("wrong number")
def test_the_generators_of_numpy_and_python_go_on(student, rng):
    """After a load, np.random and random draw the same numbers as after the save, normal too."""
    hint = {
        "numpy": "np.random.get_state(), whose last parts hold a normal number drawn in advance",
        "random": "random.getstate(), whose last part is a normal number drawn in advance",
    }
    check_draws(student, rng, of_numpy_and_python, hint)


@pytest.mark.stage(2)
@pytest.mark.harm("wrong number")
def test_the_generator_of_every_gpu_goes_on(student, rng):
    """The generator state of each GPU is restored. The GPUs are simulated."""
    seeds = [integer(rng, 0, 10**6), integer(rng, 10**6, 10**7)]
    drawn = student.run(probes.draws_of_gpus, seeds=seeds)
    loading.parts(drawn, len(seeds), name="GPUs")
    for seed, numbers in zip(seeds, drawn, strict=True):
        generator = torch.Generator().manual_seed(seed)
        torch.rand(3, generator=generator)
        expected = torch.rand(4, generator=generator).tolist()
        reason = "after the load, a GPU draws different numbers than after the save"
        hint = "torch.get_rng_state() is the CPU's; every GPU has a generator of its own"
        loading.that(numbers == expected, reason, hint=hint)


@pytest.mark.stage(2)
@pytest.mark.harm("crash")
def test_a_cpu_loads_what_a_gpu_saved(student, rng):
    """A machine without a GPU loads a checkpoint with the tensors and generator states of GPUs."""
    parameters = {"p0": torch.randn(3, 4, generator=rng), "p1": torch.randn(3, generator=rng)}
    got = student.run(probes.cpu_loads_what_a_gpu_saved, parameters=parameters)
    check_tensors(got, parameters, of=loading)


# Stays: it is what the chapter promises; tests of parts show what is missing.
@pytest.mark.stage(2)
@pytest.mark.harm("trains worse")
def test_a_run_goes_on_bit_by_bit(student, rng):
    """A run with dropout and random data resumes in another process as if it had never stopped."""
    seed = integer(rng, 0, 2**30)
    expected = probes.uninterrupted(seed=seed, steps=6)
    got = student.run(probes.resumed, seed=seed, steps=6, stop=4)
    hint = (
        "compare with a run that never stops: parameters, buffers, the optimizer, and the "
        "state of torch's generator"
    )
    for what in ("losses", "learning_rates"):
        same = got[what] == expected[what][-len(got[what]) :] and len(got[what]) > 0
        words = what.replace("_", " ")
        reason = f"{words} after the load differ from those of a run that never stops"
        loading.that(same, reason, hint=hint)
    check_tensors(got["weights"], expected["weights"], of=loading, hint=hint)


def check_leavings(got, weight, *, of):
    """Check that modes, gradients, requires_grad, parameters and tied weights are as the probe set
    them.
    """
    of.tensor(got["weights"]["output.weight"], weight, name="a tied weight")
    hint = "train or eval mode is the caller's choice for each module; leave it alone"
    name = "training, module by module"
    of.value(got["training"], [True, True, False, True, True], name=name, hint=hint)
    name = "requires_grad, parameter by parameter"
    of.value(got["requires_grad"], [True, True, False], name=name)
    of.parts(got["gradients"], 3, name="parameters")
    for gradient in got["gradients"]:
        of.that(gradient.numel() > 0, "a gradient is gone", hint="do not change .grad")
        of.tensor(gradient, torch.full_like(gradient, 2.0), name="a gradient")
    hint = "copy the values into the existing parameters"
    of.that(got["parameters_are_the_same"], "a parameter is no longer the same object", hint=hint)
    of.that(got["weights_are_tied"], "two tied weights are no longer tied", hint=hint)
    reason = "the optimizer no longer has the model's parameters"
    of.that(got["optimizer_has_the_parameters"], reason, hint=hint)


@pytest.mark.stage(1)
@pytest.mark.harm("wrong number")
def test_saving_changes_nothing(student, rng):
    """Saving does not change the run: losses, parameters, gradients, modes and generators."""
    seed, steps = integer(rng, 0, 2**30), 3
    expected = probes.uninterrupted(seed=seed, steps=steps)
    got, saved = student.run(probes.run_that_saves, seed=seed, steps=steps)
    hint = "does saving draw a random number, or change the model's mode?"
    for what in ("losses", "learning_rates"):
        reason = f"{what.replace('_', ' ')} change when checkpoints are saved"
        saving.that(got[what] == expected[what], reason, hint=hint)
    check_tensors(got["weights"], expected["weights"], of=saving, hint=hint)
    name = "first.weight"
    loading.tensor(saved, expected["weights"][name], name=name)
    weight = torch.randn(5, 3, generator=rng)
    left = student.run(probes.leavings, weight=weight, load=False)
    check_leavings(left, weight, of=saving)
    hint = "tempfile has its own random generator"
    saving.that(left["generators_are_the_same"], "saving draws a random number", hint=hint)


@pytest.mark.stage(1)
@pytest.mark.harm("wrong number")
def test_loading_writes_into_the_parameters_that_are_there(student, rng):
    """Loading writes into the existing parameters, and keeps ties, modes and gradients."""
    weight = torch.randn(5, 3, generator=rng)
    check_leavings(student.run(probes.leavings, weight=weight, load=True), weight, of=loading)


# --- where it is written


@pytest.mark.stage(1)
@pytest.mark.harm("crash")
def test_file_like_objects(student, rng):
    """A BytesIO or an open file is written and read from its current position, and left open."""
    kinds = [(3, b"", "BytesIO"), (9000, b"a header", "BytesIO"), (9000, b"2.", "file")]
    kinds += [(3, b"seven..", "file")]
    runs = [(torch.randn(rows, 4, generator=rng), *kind) for rows, *kind in kinds]
    for (weight, before, _), got in zip(runs, student.run(probes.streams, runs=runs), strict=True):
        hint = "whoever opened the object closes it"
        saving.that(not got["is_closed"], "a file-like object is closed", hint=hint)
        hint = "write from the object's current position"
        reason = "the data before the checkpoint are overwritten"
        saving.that(got["starts_with"] == before, reason, hint=hint)
        hint = "read from the object's current position"
        loading.tensor(got["weights"]["weight"], weight, name="weight", hint=hint)


@pytest.mark.stage(1)
@pytest.mark.harm("wrong number")
def test_the_iteration_comes_back_from_any_path(student, rng):
    """load_checkpoint returns the last saved iteration, from the only file that is written.

    A path is a str or a Path, relative or absolute, with or without a folder.
    """
    for kind in probes.PATHS:
        for name in ("checkpoint", "a folder/step 5.final.pt"):
            iterations = [integer(rng, 2, 10**6), 0]
            got = student.run(probes.paths, name=name, kind=kind, iterations=iterations)
            for (loaded, files), iteration in zip(got, iterations, strict=True):
                hint = "return the iteration of the file that is at the path now"
                loading.value(loaded, iteration, name="the iteration", hint=hint)
                hint = "write one file and no other"
                saving.value(files, [name], name="all files after a save", hint=hint)


# --- crashes


def check_crash(student, how, when, endings, rng):
    """Check that a failed second save leaves the first checkpoint intact and a third works."""
    # What a kill leaves of this is longer than the third checkpoint by more than 64 KiB, in which
    # torch would still find the end of a shorter file.
    failed, then = student.run(probes.crash, how=how, size=integer(rng, 170, 190))
    reason = f"save_checkpoint {failed['ending']} when {when}, expected that it is {endings[0]}"
    if how == "interrupted sync" and failed["ending"] == "returned":
        return [NAME]  # another test checks whether the file is synced before the rename
    saving.that(failed["ending"] in endings, reason, hint="does the error reach the caller?")
    hint = "write to another file in that folder, and rename it when it is complete"
    saving.that(failed["checkpoint"] == 1, f"the old checkpoint has changed when {when}", hint=hint)
    hint = "do leftovers of the last save block the next one?"
    saving.that(then["ending"] == "returned", f"the next save {then['ending']}", hint=hint)
    saving.that(then["checkpoint"] == 3, "the next save does not replace the checkpoint", hint=hint)
    return failed["files"]


@pytest.mark.stage(3)
@pytest.mark.harm("trains worse")
def test_a_killed_process_leaves_the_old_checkpoint(student, rng):
    """A process killed while writing leaves the old checkpoint intact; the next save works."""
    check_crash(student, "kills", "the process is killed while it writes", ["killed"], rng)


@pytest.mark.stage(3)
@pytest.mark.harm("wrong number")
def test_a_write_that_fails_leaves_the_old_checkpoint(student, rng):
    """If writing fails (disk full), an error is raised, and only the old checkpoint is left."""
    files = check_crash(student, "fails", "writing fails", ["raised"], rng)
    hint = "who removes the temporary file, whatever the exception is?"
    saving.value(files, [NAME], name="all files after the failed save", hint=hint)


@pytest.mark.stage(3)
@pytest.mark.harm("crash")
def test_an_interrupt_leaves_the_old_checkpoint(student, rng):
    """After a KeyboardInterrupt during a save, only the intact old checkpoint is left.

    The caller gets the KeyboardInterrupt.
    """
    hint = "KeyboardInterrupt is not an Exception: use `finally` or `except BaseException`"
    for how, when, endings in [
        ("interrupted", "Ctrl-C comes while it is written", ["interrupted", "raised"]),
        ("interrupted sync", "Ctrl-C comes while it is synced", ["interrupted"]),
    ]:
        files = check_crash(student, how, when, endings, rng)
        saving.value(files, [NAME], name="all files after the failed save", hint=hint)


def check_second(got):
    reason = f"the second of two saves {got['ending']}, expected that it returned"
    saving.that(got["ending"] == "returned", reason)
    reason = "after two saves, the second one is not the checkpoint that is loaded"
    saving.that(got["checkpoint"] == 2, reason)


@pytest.mark.stage(3)
@pytest.mark.harm("crash")
def test_the_file_is_synced_before_it_takes_its_name(student):
    """The whole file is synced to disk (fsync) before it gets the checkpoint's name."""
    got = student.run(probes.watched_save, one_disk=True)
    check_second(got)
    hint = "flush Python's buffer first; data that are not synced may be lost in a power cut"
    reason = "the file gets its name before all of it is synced to disk"
    saving.that(got["synced_before"], reason, hint=hint)


@pytest.mark.stage(3)
@pytest.mark.harm("crash")
def test_the_temporary_file_is_in_the_same_folder(student):
    """The temporary file is in the checkpoint's folder, because a rename cannot cross disks.

    The rename replaces the old checkpoint, which is there until then.
    """
    for name in (NAME, "checkpoint"):
        got = student.run(probes.watched_save, one_disk=False, name=name)
        hint = "another folder, such as the system's temporary one, may be on another disk"
        reason = "the save fails if a file cannot be moved between folders by a rename"
        saving.that(got["ending"] == "returned", reason, hint=hint)
        check_second(got)
        reason = "the checkpoint does not get its name by a rename"
        saving.that(got["renamed"], reason, hint="os.replace")
        hint = "os.replace replaces an existing file in a single step"
        reason = "the old checkpoint is not there any more when the new one gets its name"
        saving.that(got["old_until_then"], reason, hint=hint)


# --- what is refused


@pytest.mark.stage(4)
@pytest.mark.harm("not refused")
def test_a_file_is_data_and_no_program(student):
    """A pickle that would call a function when loaded is refused, without calling the function."""
    results = student.run(probes.planted)
    loading.parts(results, 3)
    for planted in results:
        hint = "use weights_only=True, and do not try again without it"
        reason = "a call planted in a file is executed"
        loading.that(not planted["call_was_made"], reason, hint=hint)
        loading.that(planted["raised"], "a file with a planted call is accepted", hint=hint)


def check_refused(refused, *, when):
    loading.that(refused["raised"], f"nothing is raised when {when}")
    for what in ("model", "optimizer", "generators"):
        hint = (
            "check everything before the first change, or restore what was there; "
            "load_state_dict copies before it raises"
        )
        reason = f"the load raises but has already changed the {what} when {when}"
        loading.that(refused[what] == 0, reason, hint=hint)


@pytest.mark.stage(4)
@pytest.mark.harm("crash")
def test_a_checkpoint_that_does_not_fit_changes_nothing(student):
    """A checkpoint of another model or other groups is refused, and nothing is changed."""
    got = student.run(probes.unfit)
    for other in probes.OTHERS:
        check_refused(got[other], when=other)


@pytest.mark.stage(4)
@pytest.mark.harm("not refused")
def test_a_file_that_is_no_checkpoint_changes_nothing(student):
    """A file that is cut short, missing or unrelated is refused, and nothing is changed."""
    got = student.run(probes.damaged)
    for contents in probes.DAMAGED:
        check_refused(got[contents], when=f"the file holds {contents}")
