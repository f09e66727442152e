"""Probes for checkpointing.py: models, optimizers, files and random generators stay in place.

A run that is resumed was saved in a forked process that then exits, so only the file is left.
Crashes are real: a process may write only a limited number of bytes to a file (RLIMIT_FSIZE). Any
further write fails, or kills the process, which is then a forked one. All other saves happen in
this process: a fork takes longer than a save and a load, and no known mistake can be tried in one.
"""

import copy
import errno
import functools
import io
import os
import pickle
import random
import signal
import tempfile
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, NoReturn, TypedDict
from unittest import mock

import numpy as np
import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from kit.student import load as import_module
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
            made = torch.zeros_like(value) if zeros else value.clone()
            self.register_parameter(name, nn.Parameter(made))
        for name, value in buffers.items():
            self.register_buffer(name, torch.zeros_like(value) if zeros else value.clone())
        self.register_buffer("scratch", torch.ones(2 if zeros else 3), persistent=False)


def state_after_load(
    student: Any, *, parameters: dict[str, Tensor], buffers: dict[str, Tensor]
) -> dict[str, Tensor]:
    """A module's state after it loads a checkpoint of another module with these values.

    The first parameter is frozen when it is loaded, and the second was when it was saved.
    """
    with _folders():
        saved = Holder(parameters, buffers, zeros=False)
        list(saved.parameters())[1].requires_grad_(False)
        _save(student, saved)
        model = Holder(parameters, buffers, zeros=True)
        next(model.parameters()).requires_grad_(False)
        _load(student, model)
        return _weights(model)


Steps = Sequence[Sequence[Tensor | None]]


def optimizer_states(
    parameters: Sequence[Tensor], runs: Sequence[tuple[str, Steps, Steps]]
) -> list[Optimizer]:
    """The states of the optimizers of `optimizers_after_load` when they are saved."""
    return [_optimizer_state(_stepped(kind, parameters, steps)[1]) for kind, steps, _ in runs]


def optimizers_after_load(
    student: Any, *, parameters: Sequence[Tensor], runs: Sequence[tuple[str, Steps, Steps]]
) -> list[Optimizer]:
    """The states of optimizers of these kinds after they load checkpoints of others.

    Args:
        parameters: The parameters before the first step.
        runs: For each, a kind, the gradients of the steps before the save, and those of the steps
            before the load.
    """
    states = []
    with _folders():
        for i, (kind, steps, _) in enumerate(runs):
            _save(student, *_stepped(kind, parameters, steps), out=f"{NAME} {i}")
        for i, (kind, _, before) in enumerate(runs):
            model, optimizer = _stepped(kind, parameters, before)
            _load(student, model, optimizer, src=f"{NAME} {i}")
            states.append(_optimizer_state(optimizer))
    return states


DRAWS: dict[str, Callable[[], list[float]]] = {
    "torch": lambda: [*torch.rand(3).tolist(), *torch.randn(2).tolist()],
    "numpy": lambda: [
        float(x) for x in (*np.random.rand(3), np.random.randn(), np.random.randint(1000))
    ],
    "random": lambda: [random.random(), random.gauss(0, 1), float(random.randrange(1000))],
}


def draws(student: Any, *, seed: int, sources: Sequence[str]) -> dict[str, list[float]]:
    """Numbers from generators restored to the state in which they were saved.

    They were saved after they had been seeded and used once.
    """

    def drawn() -> dict[str, list[float]]:
        return {source: DRAWS[source]() for source in sources}

    with _folders():
        model = nn.Linear(2, 2)  # also draws random weights
        seed_generators(seed)
        drawn()
        _save(student, model)
        seed_generators(seed + 1)
        _load(student)
        return drawn()


def draws_of_gpus(student: Any, *, seeds: Sequence[int]) -> list[list[float]]:
    """Numbers that each of several GPUs would draw after a load; one seed for each of them."""
    import_module(student, module="checkpointing")  # which may seed the generators of GPUs
    with _folders():
        with _gpus(seeds) as generators:
            for generator in generators:
                torch.rand(3, generator=generator)
            _save(student)
        with _gpus([seed + 1 for seed in seeds]) as generators:
            _load(student)
            return [torch.rand(4, generator=g).tolist() for g in generators]


def cpu_loads_what_a_gpu_saved(student: Any, *, parameters: dict[str, Tensor]) -> dict[str, Tensor]:
    """A module's state on a CPU after loading the checkpoint of a process with two GPUs.

    The tensors of the model and the optimizer are marked as tensors of the first GPU, and so are
    all tensors made from them, except by a move to the CPU.
    """
    values = list(parameters.values())
    with _folders():
        model, optimizer = _stepped("AdamW", values, [values])
        model.load_state_dict(parameters)
        state = [v for of in optimizer.state.values() for v in of.values() if v.numel() > 1]
        with _gpus((5, 6)), _on_a_gpu([*model.state_dict().values(), *state]):
            _save(student, model, optimizer)
        model, optimizer = _stepped("AdamW", values, [])
        _load(student, model, optimizer)
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


def uninterrupted(*, seed: int, steps: int) -> Run:
    """A training run with dropout, batch norm and random data.

    The run uses one thread, because more threads add in another order. It draws from torch's
    generator and puts its state back.
    """
    with _one_thread(), torch.random.fork_rng([]):
        return _train(*_fresh(seed), 0, steps)


def resumed(student: Any, *, seed: int, steps: int, stop: int) -> Run:
    """The same run, saved after step `stop` and resumed in another process.

    That process has other weights and seeds.
    """
    import_module(student, module="checkpointing")  # which may set the number of threads
    with _one_thread(), _folders():

        def save() -> None:
            model, optimizer = _fresh(seed)
            _train(model, optimizer, 0, stop)
            _save(student, model, optimizer)

        _elsewhere(save)
        model, optimizer = _fresh(seed + 1)
        _train(model, optimizer, 0, 1)
        _load(student, model, optimizer)
        return _train(model, optimizer, stop, steps)


def run_that_saves(student: Any, *, seed: int, steps: int) -> tuple[Run, Tensor]:
    """The same run, saved after each step, and a weight in its last checkpoint."""
    import_module(student, module="checkpointing")
    with _one_thread(), _folders():
        done = _train(*_fresh(seed), 0, steps, functools.partial(_save, student))
        model, optimizer = _fresh(seed + 1)
        _load(student, model, optimizer)
        return done, _weights(model)["first.weight"]


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
            _load(student, model, optimizer)
        else:
            _save(student, model, optimizer, out="folder/another")
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
            "generators_are_the_same": not _differences(_generators(), generators),
        }


# --- where it is written


FILES: dict[str, Callable[[], Any]] = {
    "BytesIO": io.BytesIO,
    "file": functools.partial(open, "stream", "w+b"),
}


def streams(student: Any, *, runs: Sequence[tuple[Tensor, bytes, str]]) -> list[Streamed]:
    """Checkpoints written to file-like objects, and read from them.

    Args:
        runs: For each, a layer's weight, the bytes before the checkpoint, and one of FILES.
    """
    with _folders():
        return [_streamed(student, *run) for run in runs]


def _streamed(student: Any, weight: Tensor, before: bytes, kind: str) -> Streamed:
    saved, loaded = (nn.Linear(weight.shape[1], weight.shape[0], bias=False) for _ in range(2))
    saved.load_state_dict({"weight": weight})
    starts_with = b""
    with FILES[kind]() as stream:
        stream.write(before)
        _save(student, saved, out=stream)
        if not stream.closed:
            stream.seek(0)
            starts_with = stream.read(len(before))
            _load(student, loaded, src=stream)
        return {"starts_with": starts_with, "is_closed": stream.closed, "weights": _weights(loaded)}


PATHS: dict[str, Callable[[str], Any]] = {"str": str, "Path": Path, "absolute": os.path.abspath}


def paths(
    student: Any, *, name: str, kind: str, iterations: Sequence[int]
) -> list[tuple[Any, list[str]]]:
    """For each of several saves to a path: the iteration that is then loaded, and all files.

    Args:
        name: The path, perhaps in a new folder.
        kind: One of PATHS.
        iterations: The iteration of each save.
    """
    results: list[tuple[Any, list[str]]] = []
    with _folders():
        Path(name).parent.mkdir(exist_ok=True)
        path = PATHS[kind](name)
        for iteration in iterations:
            _save(student, iteration=iteration, out=path)
            loaded = _load(student, src=path)
            loaded = int(loaded) if isinstance(loaded, np.integer) else loaded
            results.append((loaded, _files(name)))
    return results


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


def crash(student: Any, *, how: str, size: int) -> list[Written]:
    """Save a complete checkpoint, then one whose writing breaks off, then a complete third one.

    Args:
        how: "fails" if a write fails in the middle of the file, "kills" if that kills the process,
            "interrupted" for a KeyboardInterrupt while the state is read, "interrupted sync" for
            one while the file is synced before the rename.
    """
    results: list[Written] = []
    kind = _Interrupted if how == "interrupted" else nn.Linear

    def second() -> str:
        with _interrupted_sync(NAME, how == "interrupted sync") as broken:
            try:
                _save_number(student, 2, size=size, kind=kind)
            except KeyboardInterrupt:
                return "interrupted"
            except Exception:
                return "raised"
        return "swallowed" if broken else "returned"

    def third() -> str:
        try:
            _save_number(student, 3)
        except Exception:
            return "raised"
        return "returned"

    def write() -> str:
        """Make the second save, and let its writing break off if it is to."""
        if how == "fails":
            with _limited_files(limit):
                return second()
        return killed_by_a_large_file(second, limit) if how == "kills" else second()

    with _folders():
        _save_number(student, 1, size=size)
        limit = sum(path.stat().st_size for path in _paths()) * 9 // 10
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
    import resource  # Windows lacks it, where public tests import this module

    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def killed_by_a_large_file(work: Callable[[], str | None], limit: int) -> str:
    """How `work` ends in a process that is killed when it makes a file longer than this."""

    def killed() -> str | None:
        signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
        with _limited_files(limit):
            return work()

    ending, value = _fork(killed)
    return ending if value is None else str(value)


@contextmanager
def _interrupted_sync(name: str, is_on: bool) -> Iterator[list[None]]:
    """Let a sync raise KeyboardInterrupt while the old checkpoint is in place; list those syncs."""
    raised: list[None] = []
    if not is_on:
        yield raised
        return
    before = os.stat(name).st_ino

    def sync(file: Any) -> None:
        if os.path.exists(name) and os.stat(name).st_ino == before:
            raised.append(None)
            raise KeyboardInterrupt

    with mock.patch.object(os, "fsync", sync), mock.patch.object(os, "fdatasync", sync):
        yield raised


def watched_save(student: Any, *, one_disk: bool, name: str = NAME) -> Watched:
    """Save twice and watch the second save.

    Args:
        one_disk: Whether a rename from outside the checkpoint's folder works. Between two
            disks it fails.
    """
    with _folders():
        _save_number(student, 1, name)
        first = os.stat(name).st_ino
        ending, checkpoint = "raised", None
        with _watched(name, one_disk=one_disk) as seen, suppress(Exception):
            _save_number(student, 2, Path(name))  # a Path is a path, too
            ending = "returned"
        with suppress(Exception):
            checkpoint = _load_number(student, name)
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
    """Two layers with a batch norm and a dropout between them."""

    def __init__(self, outputs: int = 3, last: str = "last", more: str = "") -> None:
        super().__init__()
        self.first = nn.Linear(4, 6)
        self.norm = nn.BatchNorm1d(6)
        self.drop = nn.Dropout(0.4)
        self.register_module(last, nn.Linear(6, outputs))
        if more:
            self.norm.register_buffer(more, torch.ones(2))

    def forward(self, x: Tensor) -> Tensor:
        """Return as many numbers per row as there are outputs."""
        return functools.reduce(lambda y, layer: layer(y), self.children(), x)


def _groups(model: nn.Module, sizes: Sequence[int]) -> list[dict[str, Any]]:
    parameters = iter(list(model.parameters()))
    return [{"params": [next(parameters) for _ in range(size)]} for size in sizes]


# Net() has 6 parameters in groups of 2 and 4.
OTHERS: dict[str, Callable[[], tuple[nn.Module, torch.optim.Optimizer]]] = {
    "the last layer has another size": lambda: _task(Net(outputs=5)),
    "the last layer has another name": lambda: _task(Net(last="head")),
    "the model has a buffer more": lambda: _task(Net(more="scale")),
    "the optimizer has one group instead of two": lambda: _task(sizes=[6]),
    "the optimizer's groups have other sizes": lambda: _task(sizes=[3, 3]),
}


def unfit(student: Any) -> dict[str, Refused]:
    """The results of loading into each of OTHERS, after a fitting net has loaded."""
    with _one_that_loads(student):
        return {name: _refused(student, NAME, make) for name, make in OTHERS.items()}


DAMAGED = ["half of it", "nothing", "text", "the weights of a layer", "(there is none)"]


def damaged(student: Any) -> dict[str, Refused]:
    """The results of loading damaged, wrong and missing files, after the whole file has loaded."""
    with _one_that_loads(student):
        whole = Path(NAME).read_bytes()
        Path("half of it").write_bytes(whole[: len(whole) // 2])
        Path("nothing").touch()
        Path("text").write_bytes(b"weights are not here\n" * 40)
        torch.save(nn.Linear(2, 3).state_dict(), "the weights of a layer")
        return {contents: _refused(student, contents, _task) for contents in DAMAGED}


@contextmanager
def _one_that_loads(student: Any) -> Iterator[None]:
    """A folder with a checkpoint that loads, on a machine with stand-ins for two GPUs."""
    with _folders(), _gpus((5, 6)):
        _save(student, *_used(_task(), 3))
        _load(student, *_task())
        yield


def _refused(
    student: Any, file: str, make: Callable[[], tuple[nn.Module, torch.optim.Optimizer]]
) -> Refused:
    """The results of loading this file into a used model and optimizer."""
    task = _used(make(), 4)
    before = copy.deepcopy((*_states(*task), _generators()))
    raised = _load_raises(student, file, *task)
    after = (*_states(*task), _generators())
    model, optimizer, generators = (_differences(a, b) for a, b in zip(before, after, strict=True))
    return {"raised": raised, "model": model, "optimizer": optimizer, "generators": generators}


def _load_raises(
    student: Any, src: str, model: nn.Module, optimizer: torch.optim.Optimizer
) -> bool:
    try:
        _load(student, model, optimizer, src=src)
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
    return model, optimizer


def _fresh(seed: int) -> tuple[nn.Module, torch.optim.Optimizer]:
    torch.default_generator.manual_seed(seed)
    return _task(sizes=[1, 5])


def _train(
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    start: int,
    end: int,
    after_step: Callable[[nn.Module, torch.optim.Optimizer], None] | None = None,
) -> Run:
    losses, rates = [], []
    for _ in range(start, end):
        x = torch.randn(6, 4)
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
    groups = [
        {key: list(value) if isinstance(value, tuple) else value for key, value in group.items()}
        for group in saved["param_groups"]
    ]
    return {
        "state": {name: torch.as_tensor(value).clone() for name, value in state.items()},
        "groups": groups,
    }


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


# By one of these methods, depending on torch's version, an optimizer in a CUDA build of torch asks
# the driver whether a CUDA graph is captured.
CHECKS_OF_GRAPHS = ("_cuda_graph_capture_health_check", "_accelerator_graph_capture_health_check")


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
        for name in CHECKS_OF_GRAPHS:
            if hasattr(torch.optim.Optimizer, name):
                stack.enter_context(mock.patch.object(torch.optim.Optimizer, name))
        yield generators
