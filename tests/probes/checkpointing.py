"""Probes for checkpointing.py: models, optimizers, files and random generators stay in place.

What comes back is saved in a forked process that then exits, so only the file is left. Crashes are
real: a process may write only a limited number of bytes to a file (RLIMIT_FSIZE). Any further write
fails, or kills the process, which is then a forked one. A fork takes longer than a save and a load,
so all other saves happen in this process.
"""

import copy
import errno
import functools
import io
import os
import pickle
import random
import resource
import signal
import tempfile
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, NoReturn, TypedDict
from unittest import mock

import numpy as np
import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from kit.student import seed_generators

NAME = "folder/checkpoint"
RETURNED, RAISED = 0, 1


class Optimizer(TypedDict):
    """The state of an optimizer: tensors and numbers by parameter and name, and group options."""

    state: dict[str, Tensor]
    groups: list[dict[str, Any]]


class Run(TypedDict):
    """The result of a training run: last losses and learning rates, and the weights."""

    losses: list[float]
    learning_rates: list[float]
    weights: dict[str, Tensor]


class Leavings(TypedDict):
    """The parts of a run that a save or a load left unchanged."""

    training: list[bool]
    requires_grad: list[bool]
    gradients: list[Tensor]
    parameters_are_the_same: bool
    weights_are_tied: bool
    weights: dict[str, Tensor]
    optimizer_has_the_parameters: bool
    generators_are_the_same: bool


class Streamed(TypedDict):
    """The result of `stream`."""

    starts_with: bytes
    is_closed: bool
    weights: dict[str, Tensor]


class Written(TypedDict):
    """How a save ended, and what was left afterwards.

    `ending` is "returned", "killed", "raised", "interrupted" if a KeyboardInterrupt reached the
    caller, or "swallowed" if the exception of a sync did not. `files` lists all files in the folder
    and in the system's temporary folder. `checkpoint` is the checkpoint that is then loaded from
    the path: 1, 2 or 3, or None.
    """

    ending: str
    files: list[str]
    checkpoint: int | None


class Refusal(TypedDict):
    """How a save at the path of a folder ended, and all files afterwards; see `Written`."""

    ending: str
    files: list[str]


class Watched(TypedDict):
    """How the second of two saves ended, which one is then loaded, and what `watched_save` saw.

    `renamed` is whether the file got its name by a rename, `synced_before` whether the whole file
    was synced before the rename, and `old_until_then` whether the rename replaced the first one.
    """

    ending: str
    checkpoint: int | None
    renamed: bool
    synced_before: bool
    old_until_then: bool


class Refused(TypedDict):
    """Whether load_checkpoint raised, and how many values of each state have changed."""

    raised: bool
    model: int
    optimizer: int
    generators: int


class Planted(TypedDict):
    """The result of `planted` for each file with a planted call."""

    raised: bool
    call_was_made: bool


# --- what comes back


class Holder(nn.Module):
    """A module whose parameters and buffers have these values, or zeros of their shapes.

    Its buffer "scratch" is not persistent, so not in its state_dict, and may have another size.
    """

    def __init__(
        self, parameters: dict[str, Tensor], buffers: dict[str, Tensor], *, zeros: bool
    ) -> None:
        super().__init__()
        for name, value in parameters.items():
            self.register_parameter(
                name, nn.Parameter(torch.zeros_like(value) if zeros else value.clone())
            )
        for name, value in buffers.items():
            self.register_buffer(name, torch.zeros_like(value) if zeros else value.clone())
        self.register_buffer("scratch", torch.ones(2 if zeros else 3), persistent=False)


def state_after_load(
    student: Any, *, parameters: dict[str, Tensor], buffers: dict[str, Tensor]
) -> dict[str, Tensor]:
    """A module's state after it loads a checkpoint of another module with these values.

    The first parameter is frozen when it is loaded, and the second was when it was saved.
    """

    def save() -> None:
        model = Holder(parameters, buffers, zeros=False)
        list(model.parameters())[1].requires_grad_(False)
        student.checkpointing.save_checkpoint(model, _adamw(model), 3, NAME)

    with _folders():
        _elsewhere(save)
        model = Holder(parameters, buffers, zeros=True)
        next(model.parameters()).requires_grad_(False)
        student.checkpointing.load_checkpoint(NAME, model, _adamw(model))
        return _weights(model)


Steps = Sequence[Sequence[Tensor | None]]


def optimizers(
    student: Any, *, parameters: Sequence[Tensor], runs: Sequence[tuple[str, Steps]]
) -> list[Optimizer]:
    """The states of optimizers of these kinds after steps with these gradients."""
    return [_optimizer_state(_stepped(kind, parameters, steps)[1]) for kind, steps in runs]


def optimizers_after_load(
    student: Any, *, parameters: Sequence[Tensor], runs: Sequence[tuple[str, Steps, Steps]]
) -> list[Optimizer]:
    """The same, of optimizers that load the checkpoints of those.

    Args:
        student: The student's package.
        parameters: The parameters before the first step.
        runs: For each, a kind, the gradients of the steps before the save, and those of the steps
            before the load.
    """

    def save() -> None:
        for i, (kind, steps, _) in enumerate(runs):
            model, optimizer = _stepped(kind, parameters, steps)
            student.checkpointing.save_checkpoint(model, optimizer, 3, f"{NAME} {i}")

    states = []
    with _folders():
        _elsewhere(save)
        for i, (kind, _, before) in enumerate(runs):
            model, optimizer = _stepped(kind, parameters, before)
            student.checkpointing.load_checkpoint(f"{NAME} {i}", model, optimizer)
            states.append(_optimizer_state(optimizer))
    return states


MODELS: dict[str, Callable[[], tuple[nn.Module, torch.optim.Optimizer]]] = {
    "a layer": lambda: _with_adamw(nn.Linear(2, 2)),
    "a layer in float64": lambda: _with_adamw(nn.Linear(2, 2, dtype=torch.float64)),
    "a used net": lambda: _used(_task(), 3),
    "a net in eval mode": lambda: _with_adamw(Net().eval()),
    "tied weights": lambda: _with_adamw(Tied(torch.ones(3, 2))),
    "a frozen net": lambda: _with_adamw(Net().requires_grad_(False)),
}


def iteration_after_load(student: Any, *, iteration: int, of: str, kind: str) -> Any:
    """The result of load_checkpoint for a checkpoint saved at this iteration.

    Args:
        student: The student's package.
        iteration: The iteration.
        of: One of MODELS.
        kind: "str" or "Path" for a path, "file" for a file-like object.
    """
    with _folders():
        memory = io.BytesIO()
        out: Any = {"str": NAME, "Path": Path(NAME), "file": memory}[kind]
        _save(student, *MODELS[of](), iteration=iteration, out=out)
        memory.seek(0)
        loaded = _load(student, *MODELS[of](), src=out)
        return int(loaded) if isinstance(loaded, np.integer) else loaded


def _with_adamw(model: nn.Module) -> tuple[nn.Module, torch.optim.Optimizer]:
    return model, _adamw(model)


DRAWS: dict[str, Callable[[], list[float]]] = {
    "torch": lambda: [*torch.rand(3).tolist(), *torch.randn(2).tolist()],
    "numpy": lambda: [
        float(x) for x in (*np.random.rand(3), np.random.randn(), np.random.randint(1000))
    ],
    "random": lambda: [random.random(), random.gauss(0, 1), float(random.randrange(1000))],
}


def draws(student: Any, *, source: str, seed: int, load: bool) -> list[float]:
    """Numbers from a used generator.

    With `load`, numbers from a generator that was restored to the state of the first one when it
    was saved.
    """
    if not load:
        seed_generators(seed)
        DRAWS[source]()
        return DRAWS[source]()

    def save() -> None:
        model = nn.Linear(2, 2)  # also draws random weights
        seed_generators(seed)
        DRAWS[source]()
        _save(student, model)

    with _folders():
        _elsewhere(save)
        seed_generators(seed + 1)
        _load(student)
        return DRAWS[source]()


def draws_of_gpus(
    student: Any, *, machines: Sequence[tuple[Sequence[int], Sequence[int]]]
) -> list[list[list[float]]]:
    """Numbers that each GPU would draw after loading a checkpoint of a machine with GPUs.

    Args:
        student: The student's package.
        machines: Pairs of a machine that saves and one that loads, as one seed for each GPU.
    """

    def save() -> None:
        for i, (seeds, _) in enumerate(machines):
            with _gpus(seeds) as generators:
                for generator in generators:
                    torch.rand(3, generator=generator)
                _save(student, out=f"{NAME} {i}")

    def load() -> list[list[list[float]]]:
        drawn = []
        for i, (_, seeds) in enumerate(machines):
            with _gpus(seeds) as generators:
                _load(student, src=f"{NAME} {i}")
                drawn.append([torch.rand(4, generator=g).tolist() for g in generators])
        return drawn

    with _folders():
        _elsewhere(save)
        drawn: list[list[list[float]]] = _elsewhere(load)
        return drawn


def cpu_loads_what_a_gpu_saved(student: Any, *, parameters: dict[str, Tensor]) -> dict[str, Tensor]:
    """A module's state on a CPU after loading the checkpoint of a process with two GPUs.

    The tensors of the model and the optimizer are marked as tensors of the first GPU, and so are
    all tensors made from them, except by a move to the CPU.
    """

    def save() -> None:
        model, optimizer = _stepped("AdamW", list(parameters.values()), [list(parameters.values())])
        model.load_state_dict(parameters)
        state = [v for of in optimizer.state.values() for v in of.values() if v.numel() > 1]
        with _gpus((5, 6)), _on_a_gpu([*model.state_dict().values(), *state]):
            student.checkpointing.save_checkpoint(model, optimizer, 3, NAME)

    with _folders():
        _elsewhere(save)
        model, optimizer = _stepped("AdamW", list(parameters.values()), [])
        student.checkpointing.load_checkpoint(NAME, model, optimizer)
        return _weights(model)


@contextmanager
def _on_a_gpu(tensors: Sequence[Tensor]) -> Iterator[None]:
    """Mark the storages of these tensors as those of a GPU, wherever torch.save sees them."""
    there = _OnGpu(tensors)

    def tag(storage: Any) -> str:
        return "cuda:0" if storage.data_ptr() in there.addresses else "cpu"

    with mock.patch.object(torch.serialization, "location_tag", tag), there:
        yield


class _OnGpu(TorchFunctionMode):
    """Follow which tensors would be on a GPU: those that are given, and those made from them."""

    def __init__(self, tensors: Sequence[Tensor]) -> None:
        super().__init__()
        self.addresses: set[int] = set()
        self._kept: list[Any] = []  # so that no address is used again
        for x in tensors:
            self._mark(x)

    def _mark(self, x: Tensor) -> None:
        self._kept.append(x.untyped_storage())
        self.addresses.add(x.untyped_storage().data_ptr())
        self.addresses.discard(0)

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        first = args[0] if args else None
        if not isinstance(first, Tensor) or not isinstance(out, Tensor):
            return out
        if first.untyped_storage().data_ptr() not in self.addresses:
            return out
        targets = [*args[1:], *(kwargs or {}).values()] if func.__name__ == "to" else []
        if func.__name__ == "cpu" or "cpu" in map(str, targets):
            return out.clone() if out.untyped_storage().data_ptr() in self.addresses else out
        self._mark(out)
        return out


def run(student: Any, *, seed: int, steps: int, stop: int | None) -> Run:
    """A training run with dropout, batch norm and random data.

    The run uses one thread, because more threads add in another order.

    Args:
        student: The student's package.
        seed: The seed of the run.
        steps: Number of steps of the run.
        stop: The step after which the run is saved and resumed in another process with other
            weights and seeds; None for never.
    """
    with _one_thread(), _folders():
        if stop is None:
            return _train(*_fresh(seed), 0, steps)

        def save() -> None:
            model, optimizer = _fresh(seed)
            _train(model, optimizer, 0, stop)
            student.checkpointing.save_checkpoint(model, optimizer, stop, NAME)

        _elsewhere(save)
        model, optimizer = _fresh(seed + 1)
        _train(model, optimizer, 0, 1)
        student.checkpointing.load_checkpoint(NAME, model, optimizer)
        return _train(model, optimizer, stop, steps)


def run_that_saves(student: Any, *, seed: int, steps: int) -> tuple[Run, Tensor]:
    """A training run that saves after each step, and a weight in its last checkpoint."""

    def save(model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
        student.checkpointing.save_checkpoint(model, optimizer, steps, NAME)

    with _one_thread(), _folders():
        done = _train(*_fresh(seed), 0, steps, save)
        model, optimizer = _fresh(seed + 1)
        student.checkpointing.load_checkpoint(NAME, model, optimizer)
        return done, _weights(model)["layers.0.weight"]


class Tied(nn.Module):
    """An embedding that shares its weight with the output layer, and layers in between."""

    def __init__(self, weight: Tensor) -> None:
        super().__init__()
        rows, d = weight.shape
        self.embedding = nn.Embedding(rows, d, _weight=weight.clone())
        self.norm = nn.BatchNorm1d(d)
        self.drop = nn.Dropout(0.5)
        self.output = nn.Linear(d, rows, bias=False)
        self.output.weight = self.embedding.weight


def leavings(student: Any, *, weight: Tensor, load: bool) -> Leavings:
    """What a save, or with `load` a load, leaves unchanged.

    These are modes, gradients, and the identities of the parameters.
    """
    with _folders():
        if load:
            _save(student, Tied(weight))
        model = Tied(torch.zeros_like(weight) if load else weight)
        model.norm.eval()
        model.norm.bias.requires_grad_(False)
        parameters = list(model.parameters())
        addresses = [x.data_ptr() for x in model.state_dict().values()]
        optimizer = _adamw(model)
        for p in parameters:
            p.grad = torch.full_like(p, 2.0)
        generators = _generators()
        if load:
            student.checkpointing.load_checkpoint(NAME, model, optimizer)
        else:
            student.checkpointing.save_checkpoint(model, optimizer, 7, "folder/another")
        after = list(model.parameters())
        same = [id(p) for p in after] == [id(p) for p in parameters] and [
            x.data_ptr() for x in model.state_dict().values()
        ] == addresses
        return {
            "training": [m.training for m in model.modules()],
            "requires_grad": [p.requires_grad for p in after],
            "gradients": [torch.zeros(0) if p.grad is None else p.grad.clone() for p in after],
            "parameters_are_the_same": same,
            "weights_are_tied": model.output.weight is model.embedding.weight,
            "weights": _weights(model),
            "optimizer_has_the_parameters": {
                id(p) for g in optimizer.param_groups for p in g["params"]
            }
            == {id(p) for p in parameters},
            "generators_are_the_same": _same(_generators(), generators),
        }


# --- where it is written


class _FileLike:
    """A file-like object that is no io.IOBase: it passes everything on to a file."""

    def __init__(self, file: Any) -> None:
        self._file = file

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)

    def __enter__(self) -> "_FileLike":
        return self

    def __exit__(self, *error: object) -> None:
        self._file.close()


FILES: dict[str, Callable[[], Any]] = {
    "BytesIO": io.BytesIO,
    "file": functools.partial(open, "stream", "w+b"),
    "unbuffered file": functools.partial(open, "stream", "w+b", buffering=0),
    "NamedTemporaryFile": tempfile.NamedTemporaryFile,
    "SpooledTemporaryFile": tempfile.SpooledTemporaryFile,
    "another class": lambda: _FileLike(io.BytesIO()),
}


def streams(student: Any, *, runs: Sequence[tuple[Tensor, bytes, str]]) -> list[Streamed]:
    """Checkpoints written to file-like objects, and read from others of their kinds.

    Args:
        student: The student's package.
        runs: For each, a layer's weight, the bytes before the checkpoint, and one of FILES.
    """
    with _folders():
        written = _elsewhere(lambda: [_written(student, *run) for run in runs])
        return [_read(student, *run, *w) for run, w in zip(runs, written, strict=True)]


def _written(student: Any, weight: Tensor, before: bytes, kind: str) -> tuple[bytes, bool]:
    """What a file-like object holds after a save, and whether it is closed."""
    with FILES[kind]() as out:
        out.write(before)
        model = nn.Linear(weight.shape[1], weight.shape[0], bias=False)
        model.load_state_dict({"weight": weight})
        student.checkpointing.save_checkpoint(model, _adamw(model), 11, out)
        if out.closed:
            return b"", True
        out.seek(0)
        return out.read(), False


def _read(
    student: Any, weight: Tensor, before: bytes, kind: str, written: bytes, is_closed: bool
) -> Streamed:
    model = nn.Linear(weight.shape[1], weight.shape[0], bias=False)
    with FILES[kind]() as src:
        src.write(written)
        src.seek(len(before))
        if not is_closed:
            student.checkpointing.load_checkpoint(src, model, _adamw(model))
            is_closed = src.closed
    return {
        "starts_with": written[: len(before)],
        "is_closed": is_closed,
        "weights": _weights(model),
    }


class _PathLike:
    """A path that is neither a str nor a Path.

    Its text is the path, because torch.save of torch 2.6 takes that.
    """

    def __init__(self, path: str) -> None:
        self.path = path

    def __str__(self) -> str:
        return self.path

    def __fspath__(self) -> str:
        return self.path


def paths(student: Any, *, names: Sequence[str], kind: str) -> list[tuple[int | None, list[str]]]:
    """For each name, which checkpoint is loaded from it, counted from 1, and all files.

    A name may be relative, or in a new folder.
    """
    results = []
    for number, name in enumerate(names, start=1):
        with _folders():
            Path(name).parent.mkdir(exist_ok=True)
            make: Any = {
                "str": str,
                "Path": Path,
                "PathLike": _PathLike,
                "absolute": os.path.abspath,
            }[kind]
            _save_number(student, number, make(name))
            results.append((_load_number(student, make(name)), _files(name)))
    return results


def replaced(student: Any, *, count: int) -> list[tuple[int | None, int | None, list[str]]]:
    """For each of several saves to one path: the checkpoint loaded afterwards, and all files.

    Each time, the checkpoint is also loaded from the file after it is moved elsewhere.
    """
    results = []
    with _folders():
        for number in range(1, count + 1):
            _elsewhere(lambda: _save_number(student, number))  # noqa: B023
            there, files = _load_number(student), _files()
            moved = None
            with suppress(Exception), _moved(NAME, "moved/to"):
                moved = _load_number(student, "moved/to")
            results.append((there, moved, files))
    return results


@contextmanager
def _moved(name: str, elsewhere: str) -> Iterator[None]:
    """Move a file to a new folder, and back afterwards."""
    os.makedirs(os.path.dirname(elsewhere), exist_ok=True)
    os.rename(name, elsewhere)
    try:
        yield
    finally:
        os.rename(elsewhere, name)


# --- crashes


class _Breaking:
    """A part of a model's state that raises an exception while it is written."""

    def __init__(self, kind: type[BaseException]) -> None:
        self._kind = kind

    def __reduce__(self) -> NoReturn:
        raise self._kind


class _Interrupted(nn.Linear):
    def get_extra_state(self) -> Any:
        return _Breaking(KeyboardInterrupt)


class _Unwritable(nn.Linear):
    def get_extra_state(self) -> Any:
        return _Breaking(ValueError)


def whole_after_failing_syncs(student: Any, *, names: Sequence[str]) -> list[bool]:
    """For each path, whether the checkpoint is still there after a save whose sync failed.

    True for a save that does not sync the file, or hides the error; other tests judge that.
    """
    return [_whole_after_a_failing_sync(student, name) for name in names]


def _whole_after_a_failing_sync(student: Any, name: str) -> bool:
    with _folders():
        _save_number(student, 1, name)
        found = None
        with suppress(OSError), _broken_sync(name, OSError(errno.EIO)):
            _save_number(student, 2, name)
            return True
        with suppress(Exception):
            found = _load_number(student, name)
        return found == 1


def crash(student: Any, *, how: str, size: int, first: bool = True) -> list[Written]:
    """Save a complete checkpoint, then one whose writing breaks off, then a complete third one.

    Args:
        student: The student's package.
        how: "fails" if a write fails in the middle of the file, "kills" if that kills the process,
            "raises" for a ValueError and "interrupted" for a KeyboardInterrupt while the state is
            read, "interrupted sync" for one while the file is synced before the rename, "failing
            sync" if that fails.
        size: The size of the model.
        first: Whether there is a first checkpoint; without, it is removed before the second one.
    """
    results: list[Written] = []
    error = {"interrupted sync": KeyboardInterrupt(), "failing sync": OSError(errno.EIO)}.get(how)
    kind = {"interrupted": _Interrupted, "raises": _Unwritable}.get(how, nn.Linear)

    def second() -> str:
        with _broken_sync(NAME, error) as broken:
            try:
                _save_number(student, 2, size=size, kind=kind)
            except KeyboardInterrupt:
                return "interrupted"
            except Exception:
                return "raised"
        return "swallowed" if broken else "returned"

    def third() -> str:
        model = nn.Linear(2, 2)
        nn.init.constant_(model.weight, 3)
        before = _generators()
        try:
            _save(student, model)
        except Exception:
            return "raised"
        return "returned" if _same(_generators(), before) else "changed a generator"

    def write() -> str:
        """Make the second save, and let its writing break off if it is to."""
        if how == "fails":
            with _limited_files(limit):
                return second()
        return _killed(second, limit) if how == "kills" else second()

    with _folders():
        _save_number(student, 1, size=size)
        limit = sum(path.stat().st_size for path in _paths()) * 9 // 10
        if not first:
            Path(NAME).unlink()
        # The third one is smaller than what the second one has left.
        for save, expected in ((write, size), (third, 2)):
            ending, files = save(), _files()
            found = None
            with suppress(Exception):
                found = _load_number(student, size=expected)
            results.append({"ending": ending, "files": files, "checkpoint": found})
    return results


@contextmanager
def _limited_files(limit: int) -> Iterator[None]:
    """Let every write fail that makes a file longer than this."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def _killed(work: Callable[[], str], limit: int) -> str:
    """How `work` ends in a process that is killed when it makes a file longer than this."""

    def killed() -> str:
        signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
        with _limited_files(limit):
            return work()

    ending, value = _fork(killed)
    return ending if value is None else str(value)


@contextmanager
def _broken_sync(name: str, error: BaseException | None) -> Iterator[list[None]]:
    """Let a sync raise this error while the old checkpoint is in place; list the syncs that did."""
    raised: list[None] = []
    if error is None:
        yield raised
        return
    before = os.stat(name).st_ino

    def sync(file: Any) -> None:
        if os.path.exists(name) and os.stat(name).st_ino == before:
            raised.append(None)
            raise error

    with mock.patch.object(os, "fsync", sync), mock.patch.object(os, "fdatasync", sync):
        yield raised


def saved_onto_a_folder(student: Any) -> Refusal:
    """Save at a path that is a folder with a file in it, after a save at another path."""
    with _folders():
        _save_number(student, 1)
        os.makedirs("folder/taken")
        Path("folder/taken/file").touch()
        ending = "raised"
        with suppress(Exception):
            _save_number(student, 2, "folder/taken")
            ending = "returned"
        return {"ending": ending, "files": _files(NAME, "folder/taken/file")}


def watched_save(
    student: Any, *, one_disk: bool, name: str = NAME, as_text: bool | None = True
) -> Watched:
    """Save twice and watch the second save.

    Args:
        student: The student's package.
        one_disk: Whether a rename from outside the checkpoint's folder works. Between two
            disks it fails.
        name: The path of the checkpoint.
        as_text: Whether the path is a str and not a Path; None for another os.PathLike.
    """
    kinds: dict[bool | None, Any] = {True: str, False: Path, None: _PathLike}
    out = kinds[as_text](name)

    with _folders():
        _save_number(student, 1, out)
        first = os.stat(name).st_ino
        ending, checkpoint = "raised", None
        with _watched(name, one_disk=one_disk) as seen, suppress(Exception):
            _save_number(student, 2, out)
            ending = "returned"
        with suppress(Exception):
            checkpoint = _load_number(student, out)
        found = os.stat(name) if os.path.exists(name) else None
        return {
            "ending": ending,
            "checkpoint": checkpoint,
            "renamed": found is not None and seen["renamed"] == found.st_ino,
            "synced_before": found is not None
            and seen["synced"].get(found.st_ino) == found.st_size,
            "old_until_then": seen["replaced"] == first,
        }


@contextmanager
def _watched(name: str, *, one_disk: bool) -> Iterator[dict[str, Any]]:
    """Record the size of what is synced before it gets its name, and each rename to that name."""
    seen: dict[str, Any] = {"synced": {}, "renamed": None, "replaced": None}
    rename, folder = os.replace, os.path.dirname(os.path.realpath(name))

    def inode(path: str) -> int | None:
        return os.stat(path).st_ino if os.path.exists(path) else None

    def sync(file: Any) -> None:
        found = os.stat(file if isinstance(file, int) else file.fileno())
        if inode(name) != found.st_ino:
            seen["synced"][found.st_ino] = found.st_size

    def replace(src: Any, dst: Any, **options: Any) -> None:
        # A file in a subfolder is inside as well.
        inside = os.path.commonpath([folder, os.path.realpath(src)]) == folder
        if not one_disk and not inside:
            raise OSError(errno.EXDEV, os.strerror(errno.EXDEV), src)
        here = os.path.realpath(dst) == os.path.realpath(name)
        moved, before = os.stat(src).st_ino, inode(name)
        rename(src, dst, **options)
        if here:
            seen["renamed"], seen["replaced"] = moved, before

    with ExitStack() as stack:
        for function_name, function in [
            ("fsync", sync),
            ("fdatasync", sync),
            ("replace", replace),
            ("rename", replace),
        ]:
            stack.enter_context(mock.patch.object(os, function_name, function))
        yield seen


# --- what is refused


def planted(student: Any) -> list[Planted]:
    """Files whose pickle makes a call when loaded, and whether load_checkpoint allows the call."""

    class Call:
        def __reduce__(self) -> Any:
            return os.mkdir, ("made",)

    results: list[Planted] = []
    with _folders():
        _save(student)
        _load(student)
        files: list[Callable[[str], Any]] = [
            lambda name: torch.save(Call(), name),
            lambda name: torch.save(
                {"model": {}, "iteration": Call()}, name, _use_new_zipfile_serialization=False
            ),
            lambda name: Path(name).write_bytes(pickle.dumps(Call())),
        ]
        contents: Any = {}
        with suppress(Exception):
            contents = torch.load(NAME, weights_only=True)
        whole = contents if isinstance(contents, dict) else {}
        files.append(lambda name: torch.save({**whole, "more": Call()}, name))
        for write in files:
            write("file")
            raised = _load_raises(student, "file", *_task())
            results.append({"raised": raised, "call_was_made": os.path.exists("made")})
            with suppress(FileNotFoundError):
                os.rmdir("made")
    return results


class Net(nn.Module):
    """Two layers with a batch norm between them."""

    def __init__(
        self, outputs: int = 1, last: str = "last", more: str = "", tracks: bool = True
    ) -> None:
        super().__init__()
        self.first = nn.Linear(4, 6)
        self.norm = nn.BatchNorm1d(6, track_running_stats=tracks)
        self.register_module(last, nn.Linear(6, outputs))
        if more:
            self.norm.register_buffer(more, torch.ones(2))


def _groups(model: nn.Module, sizes: Sequence[int]) -> list[dict[str, Any]]:
    parameters = iter(list(model.parameters()))
    return [{"params": [next(parameters) for _ in range(size)]} for size in sizes]


# Net() has 6 parameters in groups of 2 and 4.
OTHERS: dict[str, Callable[[], tuple[nn.Module, torch.optim.Optimizer]]] = {
    "the last layer has another size": lambda: _task(Net(outputs=5)),
    "the last layer has another name": lambda: _task(Net(last="head")),
    "the model has fewer buffers": lambda: _task(Net(tracks=False)),
    "the model has a buffer more": lambda: _task(Net(more="scale")),
    "a buffer has another size": lambda: _task(Net(more="running_var")),
    "the model has a layer less": lambda: _task(nn.Sequential(nn.Linear(4, 6)), sizes=[2]),
    "the optimizer has one group instead of two": lambda: _task(sizes=[6]),
    "the optimizer's groups have other sizes": lambda: _task(sizes=[3, 3]),
    "the optimizer has fewer parameters": lambda: _task(sizes=[2, 3]),
}


def unfit(student: Any) -> dict[str, Refused]:
    """The results of loading into each of OTHERS, new and used, after a fitting net has loaded.

    These processes have simulated GPUs.
    """
    with _folders(), _gpus((5, 6)):
        _save(student, *_used(_task(), 3))
        _load(student, *_task())
        return {
            name: _refused(student, [NAME], lambda: _used(make(), 4))[0]  # noqa: B023
            for name, make in OTHERS.items()
        }


DAMAGED = ["half of it", "nothing", "text", "the weights of a layer", "a list", "(there is none)"]


def damaged(student: Any) -> dict[str, Refused]:
    """The results of loading damaged, wrong and missing files, after the whole file has loaded."""
    with _folders(), _gpus((5, 6)):
        _save(student, *_used(_task(), 3))
        _load(student, *_task())
        whole = Path(NAME).read_bytes()
        Path("half of it").write_bytes(whole[: len(whole) // 2])
        Path("nothing").touch()
        Path("text").write_bytes(b"weights are not here\n" * 40)
        torch.save(nn.Linear(2, 3).state_dict(), "the weights of a layer")
        torch.save([torch.ones(3), 5], "a list")
        results = _refused(student, DAMAGED, lambda: _used(_task(), 4))
        return dict(zip(DAMAGED, results, strict=True))


def parts_missing(student: Any) -> Refused:
    """The results of loading a checkpoint without one of its parts, added up for all parts.

    The parts are those of the outermost dict, list or tuple, and of each dict in it. Parts that
    hold nothing if there is no GPU stay, and so do the two parts of an optimizer's state_dict,
    which torch always writes. A checkpoint that load_checkpoint accepts is left out, and so is any
    other layout.
    """

    def task() -> tuple[nn.Module, torch.optim.Optimizer]:
        return _task(nn.BatchNorm1d(3), sizes=[1, 1])

    total: Refused = {"raised": True, "model": 0, "optimizer": 0, "generators": 0}
    with _folders():
        _save(student, *_used(task(), 3), out="without GPUs")
        with _gpus((5, 6)):
            _save(student, *_used(task(), 3))
            _load(student, *task())
            try:
                plain, whole = (torch.load(x, weights_only=True) for x in ("without GPUs", NAME))
            except Exception:
                return total

            def files() -> Iterator[str]:
                for changed in _without_a_part(whole, plain):
                    torch.save(changed, "changed")
                    yield "changed"

            for result in _refused(student, files(), lambda: _used(task(), 4), task):
                if result["raised"]:
                    total["model"] += result["model"]
                    total["optimizer"] += result["optimizer"]
                    total["generators"] += result["generators"]
    return total


def _without_a_part(whole: Any, plain: Any) -> Iterator[Any]:
    """The checkpoint `whole` without one of the parts that hold something in `plain`, too."""
    if isinstance(whole, dict):
        for key, part in whole.items():
            if _is_empty(plain, key):
                continue
            yield {k: v for k, v in whole.items() if k != key}
            for name in part if isinstance(part, dict) else ():
                if name not in ("state", "param_groups") and not _is_empty(plain[key], name):
                    yield {**whole, key: {k: v for k, v in part.items() if k != name}}
    elif isinstance(whole, (list, tuple)):
        for i in range(len(whole)):
            if not _is_empty(plain, i):
                yield type(whole)([*whole[:i], *whole[i + 1 :]])


def _is_empty(container: Any, key: Any) -> bool:
    """Whether this part of a container is missing, None or empty."""
    try:
        part = container[key]
    except (IndexError, KeyError, TypeError):
        return True
    if isinstance(part, Tensor):
        return part.numel() == 0
    return part is None or (isinstance(part, (dict, list, tuple)) and not part)


def _refused(
    student: Any,
    files: Iterable[str],
    *makes: Callable[[], tuple[nn.Module, torch.optim.Optimizer]],
) -> list[Refused]:
    """The results of loading each of these files into each of the models that these make.

    The models and their optimizers are made once, and all of them anew after a load that has
    changed something or has not raised.
    """
    results: list[Refused] = []
    tasks: list[tuple[nn.Module, torch.optim.Optimizer]] = []
    before: list[Any] = []
    for file in files:
        if not tasks:
            tasks = [make() for make in makes]
            before = [copy.deepcopy(_states(*task)) for task in tasks]
        for task, states in zip(tasks, before, strict=True):
            generators = _generators()
            raised = _load_raises(student, file, *task)
            found = zip((*states, generators), (*_states(*task), _generators()), strict=True)
            model, optimizer, changed = (_differences(a, b) for a, b in found)
            results.append(
                {"raised": raised, "model": model, "optimizer": optimizer, "generators": changed}
            )
        news = results[-len(tasks) :]
        if not all(
            r["raised"] and not (r["model"] or r["optimizer"] or r["generators"]) for r in news
        ):
            tasks = []
    return results


def _load_raises(
    student: Any, src: str, model: nn.Module, optimizer: torch.optim.Optimizer
) -> bool:
    try:
        student.checkpointing.load_checkpoint(src, model, optimizer)
    except NotImplementedError:
        raise
    except Exception:
        return True
    return False


# --- models, optimizers and their states


def _task(
    model: nn.Module | None = None, sizes: Sequence[int] = (2, 4)
) -> tuple[nn.Module, torch.optim.Optimizer]:
    model = model or Net()
    return model, torch.optim.AdamW(_groups(model, sizes), lr=0.1)


def _used(
    task: tuple[nn.Module, torch.optim.Optimizer], seed: int
) -> tuple[nn.Module, torch.optim.Optimizer]:
    """A model and an optimizer after a step, and generators that have been used.

    No buffer and no option has the value that it was created with, or the value of another seed.
    One module is in another mode than the rest, and one parameter is frozen.
    """
    model, optimizer = task
    seed_generators(seed)
    for p in model.parameters():
        nn.init.normal_(p)
        p.grad = torch.randn_like(p)
    for buffer in model.buffers():
        if buffer.is_floating_point():
            buffer.uniform_(1, 2)
        else:
            buffer.fill_(seed)
    optimizer.step()
    for group in optimizer.param_groups:
        group["lr"] = seed / 64
        group["betas"] = (seed / 16, seed / 8)
    list(model.modules())[-1].train(seed % 2 == 1)
    next(model.parameters()).requires_grad_(seed % 2 == 1)
    np.random.rand(3)
    random.random()
    return task


def _adamw(model: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.AdamW([p for p in model.parameters() if p.is_floating_point()], lr=0.1)


def _save(
    student: Any,
    model: nn.Module | None = None,
    optimizer: torch.optim.Optimizer | None = None,
    *,
    iteration: int = 3,
    out: Any = NAME,
) -> None:
    model = model or nn.Linear(2, 2)
    student.checkpointing.save_checkpoint(model, optimizer or _adamw(model), iteration, out)


def _load(
    student: Any,
    model: nn.Module | None = None,
    optimizer: torch.optim.Optimizer | None = None,
    *,
    src: Any = NAME,
) -> Any:
    model = model or nn.Linear(2, 2)
    return student.checkpointing.load_checkpoint(src, model, optimizer or _adamw(model))


def _save_number(
    student: Any, number: int, out: Any = NAME, *, size: int = 2, kind: type[nn.Linear] = nn.Linear
) -> None:
    """Save a model whose weights are all this number."""
    model = kind(size, size)
    nn.init.constant_(model.weight, number)
    _save(student, model, out=out)


def _load_number(student: Any, src: Any = NAME, *, size: int = 2) -> int | None:
    """The number that all weights equal after a load, or None."""
    model = nn.Linear(size, size)
    _load(student, model, src=src)
    number = int(model.weight[0, 0])
    return number if bool((model.weight == number).all()) else None


class Unusual(torch.optim.Optimizer):
    """An optimizer whose state has other types than torch's own: an int, a list, None and bools."""

    def __init__(self, params: Any, lr: float) -> None:
        options = {"signs": (True, None), "name": "unusual", "limits": torch.ones(2)}
        super().__init__(params, {"lr": lr, **options})

    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        """Change nothing but the state."""
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is not None:
                    state = self.state[p]
                    state["steps"] = state.get("steps", 0) + 1
                    state["norms"] = [*state.get("norms", []), float(p.grad.norm())]
                    state["mean"] = p.grad.mean()
                    state["factored"] = p.dim() > 1


def _stepped(
    kind: str, parameters: Sequence[Tensor], gradients: Sequence[Sequence[Tensor | None]]
) -> tuple[nn.Module, torch.optim.Optimizer]:
    """An optimizer of two groups after these steps.

    Its learning rates and decay were changed after it was created.
    """
    model = Holder({f"p{i}": p for i, p in enumerate(parameters)}, {}, zeros=not gradients)
    leaves = list(model.parameters())
    groups: list[dict[str, Any]] = [{"params": leaves[:1]}, {"params": leaves[1:], "lr": 0.5}]
    kinds: dict[str, Callable[[], torch.optim.Optimizer]] = {
        "AdamW": lambda: torch.optim.AdamW(groups, lr=0.1, betas=(0.8, 0.9)),
        "SGD": lambda: torch.optim.SGD(groups, lr=0.1, momentum=0.9),
        "Unusual": lambda: Unusual(groups, lr=0.1),
    }
    optimizer = kinds[kind]()
    for row in gradients:
        for p, gradient in zip(leaves, row, strict=True):
            p.grad = None if gradient is None else gradient.clone()
        optimizer.step()
        for number, group in enumerate(optimizer.param_groups, start=1):
            group["lr"] *= 0.75
            group["weight_decay"] = 0.25 * number
            if "betas" in group:
                group["betas"] = (0.5, 0.75)
            if "limits" in group:
                group["limits"] = torch.tensor([0.25, number])
    return model, optimizer


class Trained(nn.Module):
    """A net with a dropout and a batch norm."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(5, 7), nn.BatchNorm1d(7), nn.Dropout(0.4), nn.Linear(7, 3)
        )

    def forward(self, x: Tensor) -> Any:
        """Return three numbers per row."""
        return self.layers(x)


def _fresh(seed: int) -> tuple[nn.Module, torch.optim.Optimizer]:
    seed_generators(seed)
    model = Trained()
    return model, torch.optim.AdamW(_groups(model, [1, 5]), lr=0.1)


def _train(
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    start: int,
    end: int,
    after_step: Callable[[nn.Module, torch.optim.Optimizer], None] | None = None,
) -> Run:
    losses, rates = [], []
    for _ in range(start, end):
        x = torch.randn(6, 5)
        optimizer.zero_grad()
        loss = (model(x) - 1).square().mean()
        torch.autograd.backward(loss)
        optimizer.step()
        for group in optimizer.param_groups:
            group["lr"] *= 0.9
        losses.append(loss.item())
        rates += [group["lr"] for group in optimizer.param_groups]
        if after_step is not None:
            after_step(model, optimizer)
    return {"losses": losses, "learning_rates": rates, "weights": _weights(model)}


def _weights(model: nn.Module) -> dict[str, Tensor]:
    return {name: value.detach().clone() for name, value in model.state_dict().items()}


def _optimizer_state(optimizer: torch.optim.Optimizer) -> Optimizer:
    saved = optimizer.state_dict()
    state = {
        f"{name} of parameter {i}": value
        for i, of in saved["state"].items()
        for name, value in of.items()
    }
    groups = [{key: _listed(v) for key, v in group.items()} for group in saved["param_groups"]]
    return {
        "state": {name: torch.as_tensor(value).clone() for name, value in state.items()},
        "groups": groups,
    }


def _listed(option: Any) -> Any:
    """An option; a tuple or a tensor as a list."""
    if isinstance(option, Tensor):
        return option.tolist()
    return list(option) if isinstance(option, tuple) else option


def _states(model: nn.Module, optimizer: torch.optim.Optimizer) -> tuple[Any, Any]:
    """The live states of a model and an optimizer, and whose parameters they are."""
    held = [id(p) for group in optimizer.param_groups for p in group["params"]]
    own = [id(x) for x in (*model.parameters(), *model.buffers())]
    more = (
        [p.grad for p in model.parameters()],
        [p.requires_grad for p in model.parameters()],
        [m.training for m in model.modules()],
    )
    return (dict(model.state_dict()), own, *more), (optimizer.state_dict(), held)


def _generators() -> list[Any]:
    of_gpus = torch.cuda.get_rng_state_all() if torch.cuda.is_available() else []
    _, words, rest = random.getstate()
    of_random = [np.array(words), rest]
    return [torch.get_rng_state(), of_gpus, list(np.random.get_state()), of_random]


def _same(a: Any, b: Any) -> bool:
    """Whether two nested values are equal bit for bit."""
    return _differences(a, b) == 0


def _differences(a: Any, b: Any) -> int:
    """How many parts of two nested values differ in a bit; 1 if they have other parts."""
    if isinstance(a, Tensor) and isinstance(b, Tensor):
        return int(not (a.dtype == b.dtype and torch.equal(a, b)))
    if isinstance(a, dict) and isinstance(b, dict):
        return sum(_differences(a[k], b[k]) for k in a) if a.keys() == b.keys() else 1
    if isinstance(a, (list, tuple)) and isinstance(b, (list, tuple)):
        return sum(map(_differences, a, b)) if len(a) == len(b) else 1
    return int(not np.array_equal(a, b))


# --- processes and folders


@contextmanager
def _folders() -> Iterator[None]:
    """A working folder that contains an empty folder, and a second one for temporary files."""
    before, temporary = os.getcwd(), tempfile.tempdir
    with tempfile.TemporaryDirectory() as root:
        for name in ("work/folder", "tmp"):
            os.makedirs(os.path.join(root, name))
        os.chdir(os.path.join(root, "work"))
        tempfile.tempdir = os.path.join(root, "tmp")
        try:
            yield
        finally:
            os.chdir(before)
            tempfile.tempdir = temporary


def _paths() -> list[Path]:
    """Every file in the two folders."""
    found = (path for folder in (".", "../tmp") for path in Path(folder).rglob("*"))
    return [path for path in found if not path.is_dir()]


def _files(*known: str) -> list[str]:
    """Every file in the two folders, by its name if it is one of these, or else NAME.

    Of any other file only the folder is told: its name is the student's choice.
    """
    names = known or (NAME,)
    paths = [path.as_posix() for path in _paths()]
    return sorted(p if p in names else f"a file in {Path(p).parent}" for p in paths)


def _elsewhere(work: Callable[[], Any]) -> Any:
    """Run `work` in its own process and return its result.

    If it raises in that process, run it again in this one, so that it raises here.
    """
    ending, value = _fork(work)
    return value if ending == "returned" else work()


def _fork(work: Callable[[], Any]) -> tuple[str, Any]:
    # The first optimizer of a process imports torch._dynamo, which may take seconds. Import it here
    # once, not in each forked process.
    import torch._dynamo

    reading, writing = os.pipe()
    with warnings.catch_warnings():
        # Ignore the warning about threads: the forked process does not need them.
        warnings.simplefilter("ignore", DeprecationWarning)
        try:
            pid = os.fork()
        except BaseException:
            os.close(reading)
            os.close(writing)
            raise
    if pid == 0:
        _do(work, writing)
    os.close(writing)
    with open(reading, "rb") as pipe:
        answer = pipe.read()
    _, status = os.waitpid(pid, 0)
    if os.WIFSIGNALED(status):
        return "killed", None
    if os.WEXITSTATUS(status) != RETURNED:
        return "raised", None
    return "returned", torch.load(io.BytesIO(answer), weights_only=True) if answer else None


def _do(work: Callable[[], Any], writing: int) -> NoReturn:
    """Do the work, send its result and end this process, whatever happens."""
    code = RAISED
    try:
        torch.set_num_threads(1)
        answer = work()
        if answer is not None:
            with open(writing, "wb") as pipe:
                torch.save(answer, pipe)
        code = RETURNED
    finally:
        os._exit(code)


@contextmanager
def _one_thread() -> Iterator[None]:
    """Use one thread in torch: a forked process has no other threads either."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@contextmanager
def _gpus(seeds: Sequence[int]) -> Iterator[tuple[torch.Generator, ...]]:
    """Generators that replace those of as many GPUs wherever torch.cuda looks for them."""
    generators = tuple(torch.Generator().manual_seed(seed) for seed in seeds)
    stand_ins: dict[str, Any] = {
        "is_available": lambda: True,
        "is_initialized": lambda: True,
        "device_count": lambda: len(generators),
        "current_device": lambda: 0,
        "synchronize": lambda device=None: None,
        "_lazy_init": lambda: None,
        "_lazy_call": lambda call, **options: call(),
        "default_generators": generators,
    }
    with ExitStack() as stack:
        for module in (torch.cuda, torch.cuda.random):
            for name, stand_in in stand_ins.items():
                if hasattr(module, name):
                    stack.enter_context(mock.patch.object(module, name, stand_in))
        yield generators
