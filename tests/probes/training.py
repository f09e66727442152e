"""Probes for training.py: whole runs of small models that note what is done to them, and runs that are killed.

A model here predicts the next token from the current one alone, so it is small and the order of a batch's rows does not
matter to it. What it is asked and what the optimizer is given is noted down.

A kill leaves the files as they are at that moment. So one run, in a process of its own, copies its folder wherever it is to be
killed, and each copy is what another run then finds. Only in the middle of writing a checkpoint is a process really killed.
"""

import json
import os
import pickle
import random
import resource
import shutil
import signal
import tempfile
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypedDict

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

Array = np.ndarray[Any, Any]
FIELDS = ("losses", "learning_rates", "grad_norms", "eval_losses", "first_step")
KEYS = ("step", "loss", "lr", "grad_norm")


class Forwards(TypedDict):
    """What the model was asked, one entry a forward pass."""

    tokens: list[Tensor]
    logits: list[Tensor]  # only where they are asked for
    modes: list[str]  # "training", "eval" or "mixed"
    grad_enabled: list[bool]
    steps_before: list[int]  # steps of the optimizer before it


class Steps(TypedDict):
    """What the optimizer was given, one entry a step."""

    learning_rates: list[list[Any]]  # of each group
    parameters: list[list[Tensor]]
    gradients: list[list[Any]]


class Run(TypedDict):
    """One run: TrainResult's fields, or the text of the FloatingPointError there was instead, and what was noted down."""

    result: Any
    error: str | None
    forwards: Forwards
    steps: Steps
    parameters: list[Tensor]
    state_dtypes: list[torch.dtype]


class KilledRuns(TypedDict):
    """What `killed` returns: a run that was not stopped, and for each kill what the run begun again made of it."""

    whole: Run
    results: list[Any]
    parameters: list[list[Tensor]]
    logs_when_killed: list[list[Any]]
    logs: list[list[Any]]


class Bigram(nn.Module):
    """Logits of the next token: the current one's embedding, perhaps with dropout, times a matrix.

    Args:
        embedding: Of shape (vocabulary, width).
        head: Of shape (vocabulary, width).
        dropout: Part of the embedding that is dropped in training mode.
        noise: Standard deviation of what is added to the logits in either mode.
        unused: Give it a parameter that never gets a gradient.
    """

    def __init__(
        self,
        embedding: Tensor,
        head: Tensor,
        *,
        dropout: float = 0.0,
        noise: float = 0.0,
        unused: bool = False,
    ) -> None:
        super().__init__()
        self.embedding = nn.Parameter(embedding.clone())
        self.head = nn.Parameter(head.clone())
        self.unused = nn.Parameter(torch.ones(3)) if unused else None
        self.dropout = nn.Dropout(dropout)
        self.noise = noise
        self.on_forward: Callable[[Tensor, Tensor], Tensor] = lambda tokens, logits: logits

    def forward(self, tokens: Tensor) -> Tensor:
        """Logits, as `on_forward` lets them pass."""
        logits: Tensor = self.dropout(F.embedding(tokens, self.embedding)) @ self.head.T
        if self.noise:
            logits = logits + self.noise * torch.randn(logits.shape[-1], device=logits.device)
        return self.on_forward(tokens, logits)


class Watch:
    """Notes what a model and an optimizer are asked to do, and breaks a loss where it is told to.

    Args:
        model: What to watch.
        optimizer: What to watch as well.
        folder: Where the run's files are.
        kill_at: Numbers of forward passes at which the folder is copied, to "<folder> 0", "<folder> 1" and so on. Then
            gradients are cleared after each step, so that a forgotten zero_grad is not a second mistake there.
        break_at: Number of steps after which the loss is no finite number.
        infinite: Whether that loss is infinite, and not NaN.
        keep_logits: Note the logits as well.
    """

    def __init__(
        self,
        model: Bigram,
        optimizer: torch.optim.Optimizer,
        folder: Path,
        *,
        kill_at: Sequence[int] | None = None,
        break_at: int | None = None,
        infinite: bool = False,
        keep_logits: bool = False,
    ) -> None:
        self.forwards: Forwards = {
            "tokens": [],
            "logits": [],
            "modes": [],
            "grad_enabled": [],
            "steps_before": [],
        }
        self.steps: Steps = {"learning_rates": [], "parameters": [], "gradients": []}
        self._model, self._folder = model, folder
        self._kill_at, self._break_at, self._infinite, self._keep_logits = (
            kill_at or (),
            break_at,
            infinite,
            keep_logits,
        )
        self.breaks = break_at is not None
        model.on_forward = self._on_forward
        optimizer.register_step_pre_hook(self._before_step)
        if kill_at is not None:
            optimizer.register_step_post_hook(self._clear_gradients)

    def _on_forward(self, tokens: Tensor, logits: Tensor) -> Tensor:
        number = len(self.forwards["tokens"])
        for place, at in enumerate(self._kill_at):
            if at == number:
                shutil.copytree(self._folder, f"{self._folder} {place}", dirs_exist_ok=True)
        self.forwards["tokens"].append(tokens.detach().clone())
        modes = {module.training for module in self._model.modules()}
        self.forwards["modes"].append(
            "mixed" if len(modes) > 1 else "training" if True in modes else "eval"
        )
        self.forwards["grad_enabled"].append(torch.is_grad_enabled())
        self.forwards["steps_before"].append(len(self.steps["parameters"]))
        if self._keep_logits:
            self.forwards["logits"].append(logits.detach().clone())
        return self._broken(logits) if len(self.steps["parameters"]) == self._break_at else logits

    def _broken(self, logits: Tensor) -> Tensor:
        if not self._infinite:
            return logits * float("nan")
        first = torch.arange(logits.shape[-1]) == 0
        return logits * 0 + torch.where(
            first, 0.0, -torch.inf
        )  # every target but token 0 has probability 0

    def _before_step(self, optimizer: torch.optim.Optimizer, args: Any, kwargs: Any) -> None:
        self.steps["learning_rates"].append(
            [_plain(group["lr"]) for group in optimizer.param_groups]
        )
        self.steps["parameters"].append(_values(self._model))
        self.steps["gradients"].append(
            [None if p.grad is None else p.grad.detach().clone() for p in self._model.parameters()]
        )

    def _clear_gradients(self, optimizer: torch.optim.Optimizer, args: Any, kwargs: Any) -> None:
        for p in self._model.parameters():
            if p.grad is not None:
                p.grad.zero_()


def trained(student: Any, **run: Any) -> Run:
    """One run in this process; the inputs are those of `_run`."""
    with _folder() as folder:
        return _run(student, folder, **run)


def one_after_the_other(
    student: Any, *, runs: Sequence[dict[str, Any]], **shared: Any
) -> tuple[list[Run], list[list[Any]]]:
    """Runs in one folder, each with the shared inputs and its own, and the log after each of them."""
    done: list[Run] = []
    logs = []
    with _folder() as folder:
        for run in runs:
            done.append(_run(student, folder, **{**shared, **run}))
            logs.append(_log(folder))
    return done, logs


def trained_on_a_file(student: Any, *, train_tokens: Array, dtype: str, **run: Any) -> Run:
    """A run on tokens in a raw file, memory-mapped and read-only."""
    with _folder() as folder, _read_only_allowed():
        path = folder / "tokens.bin"
        train_tokens.astype(dtype).tofile(path)
        return _run(student, folder, train_tokens=np.memmap(path, dtype=dtype, mode="r"), **run)


def trained_on_endless_data(
    student: Any, *, token: int, length: int, **run: Any
) -> tuple[Run | None, str | None]:
    """A run, or the name of its error, on `length` equal tokens of which one is in memory: an array of stride 0."""
    tokens = np.lib.stride_tricks.as_strided(np.full(1, token, dtype=np.uint16), (length,), (0,))
    try:
        got = trained(student, train_tokens=tokens, **run)
    except NotImplementedError:
        raise
    except (IndexError, MemoryError, RuntimeError, ValueError) as e:
        return None, type(e).__name__
    return {**got, "result": None}, None  # which might hold the tokens, and nobody asks for


def killed(
    student: Any, *, kill_at: Sequence[int], leave: Sequence[str] = (), **run: Any
) -> KilledRuns:
    """A run that is not stopped, and for each of these forward passes of it one that is killed there and begun again.

    A run that is begun again is in another process, with a model and an optimizer that are new.

    Args:
        student: Their package.
        kill_at: Numbers of forward passes; none has to be reached.
        leave: For each kill, text that is at the end of the log.
        run: The inputs of `_run`.
    """
    with _folder() as root, _one_thread():
        whole = _elsewhere(student, root / "run", watch={"kill_at": kill_at}, **run)
        answer: KilledRuns = {
            "whole": whole,
            "results": [],
            "parameters": [],
            "logs_when_killed": [],
            "logs": [],
        }
        for place, text in enumerate(leave or [""] * len(kill_at)):
            folder = _as_it_was_left(root, place)
            if text:
                with open(folder / "log", "a") as log:
                    log.write(text)
            answer["logs_when_killed"].append(_log(folder))
            again = _run(student, folder, watch={"kill_at": ()}, **_renewed(run, folder))
            answer["results"].append(again["result"])
            answer["parameters"].append(again["parameters"])
            answer["logs"].append(_log(folder))
    return answer


def _as_it_was_left(root: Path, place: int) -> Path:
    """The folder "run" as it was when the run in it was killed for the first, second, … time, and at the same path."""
    here, copied = root / "run", root / f"run {place}"
    shutil.rmtree(here)
    if copied.exists():
        copied.rename(here)
    else:
        here.mkdir()
    return here


def killed_while_writing(student: Any, *, kill_at: int, **run: Any) -> tuple[Run, Run]:
    """A run that is not stopped, and one that was killed in the middle of a checkpoint and begun again.

    That one is killed in forward pass `kill_at` first, when it has written a checkpoint. It goes on where no file may grow
    past half of that checkpoint, and is killed by the attempt.
    """
    with _folder() as root, _one_thread():
        whole = _elsewhere(student, root / "run", watch={"kill_at": [kill_at]}, **run)
        folder = _as_it_was_left(root, 0)
        checkpoint = folder / "checkpoint"
        size = checkpoint.stat().st_size if checkpoint.is_file() else 0
        run["watch"] = {"kill_at": ()}
        _in_a_process(student, folder, largest_file=size // 2, **_renewed(run, folder))
        return whole, _run(student, folder, **_renewed(run, folder))


def _run(
    student: Any,
    folder: Path,
    *,
    parameters: Sequence[Tensor],
    config: dict[str, Any],
    train_tokens: Array,
    val_tokens: Array | None = None,
    optimizer: str = "SGD",
    groups: int = 1,
    model: dict[str, Any] | None = None,
    watch: dict[str, Any] | None = None,
    gradients_before: bool = False,
    eval_before: bool = False,
    seed_before: int = 0,
) -> Run:
    """Train a new model with a new optimizer.

    Args:
        parameters: The embedding and the head that it begins with.
        config: Fields of TrainConfig; paths are inside `folder`.
        optimizer: A class of torch.optim.
        groups: Number of parameter groups, 1 or 2.
        model: Options of Bigram.
        watch: Options of Watch.
        gradients_before: Let every parameter have a gradient already.
        eval_before: Let the model come in eval mode.
        seed_before: The global generators of torch, numpy and random are set to it first.
    """
    network = Bigram(*parameters, **(model or {}))
    members = list(network.parameters())
    grouped: list[Any] = (
        members if groups == 1 else [{"params": members[:1]}, {"params": members[1:], "lr": 0.5}]
    )
    stepper = getattr(torch.optim, optimizer)(grouped, lr=0.25)
    watcher = Watch(network, stepper, folder, **(watch or {}))
    network.train(not eval_before)
    if gradients_before:
        for p in members:
            p.grad = torch.full_like(p, 3.0)
    paths: dict[str, Any] = {
        key: str(folder / config[key]) for key in ("checkpoint_path", "log_path") if key in config
    }
    made = student.training.TrainConfig(**(config | paths))
    torch.manual_seed(seed_before)
    np.random.seed(seed_before)
    random.seed(seed_before)
    result, error = None, None
    try:
        result = _fields(
            student.training.train(network, stepper, train_tokens, made, val_tokens=val_tokens)
        )
    except FloatingPointError as e:
        if not watcher.breaks:
            raise
        error = str(e)
    return {
        "result": result,
        "error": error,
        "forwards": watcher.forwards,
        "steps": watcher.steps,
        "parameters": _values(network),
        "state_dtypes": [
            v.dtype for s in stepper.state.values() for v in s.values() if isinstance(v, Tensor)
        ],
    }


def _fields(result: Any) -> Any:
    """The fields of a TrainResult as plain data, numpy's numbers as Python's; anything else as it is."""
    if not all(hasattr(result, name) for name in FIELDS):
        return result
    return {name: _python(getattr(result, name)) for name in FIELDS}


def _python(x: Any) -> Any:
    if isinstance(x, list):
        return [_python(v) for v in x]
    if isinstance(x, Mapping):
        return {_python(key): _python(v) for key, v in x.items()}
    return x.item() if isinstance(x, np.integer | np.floating) else x


def _renewed(run: dict[str, Any], folder: Path) -> dict[str, Any]:
    """The same run as a new process would make it: with another random state and, where they can be loaded, other weights."""
    others = {"parameters": [torch.full_like(p, 0.5) for p in run["parameters"]]}
    return {**run, "seed_before": 99, **(others if (folder / "checkpoint").exists() else {})}


def _elsewhere(student: Any, folder: Path, **run: Any) -> Run:
    """A run in a new folder and a process of its own; if it ends with an exception, it is made in this one, which meets it."""
    folder.mkdir()
    done = _in_a_process(student, folder, **run)
    return _run(student, folder, **run) if done is None else done


def _in_a_process(
    student: Any, folder: Path, *, largest_file: int | None = None, **run: Any
) -> Run | None:
    """A run in a process of its own; None where that ended before the run did.

    It is a copy of this process, as no other program can be started here, and leaves what it has to say in a file.
    """
    with _folder() as elsewhere:
        answer = elsewhere / "answer"
        with warnings.catch_warnings():
            warnings.simplefilter(
                "ignore", DeprecationWarning
            )  # of forks beside threads, which the copy does not need
            pid = os.fork()
        if pid == 0:
            try:
                if largest_file is not None:
                    _limit_files(largest_file)
                done = _run(student, folder, **run)
                if largest_file is None:
                    answer.write_bytes(pickle.dumps(done))
            finally:
                os._exit(0)
        os.waitpid(pid, 0)
        return pickle.loads(answer.read_bytes()) if answer.exists() else None


@contextmanager
def _one_thread() -> Iterator[None]:
    """One thread for torch: a copy of this process has none of the others, and two add in another order than one."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _limit_files(size: int) -> None:
    """Have this process killed when it writes a file past this size."""
    signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))


def _log(folder: Path) -> list[Any]:
    """Each line of the log as the values of the four keys; a line that is no JSON object as text."""
    path = folder / "log"
    rows: list[Any] = []
    for line in path.read_text().splitlines(keepends=True) if path.exists() else []:
        try:
            record = json.loads(line)
        except ValueError:
            record = None
        whole = isinstance(record, dict) and line.endswith("\n")
        rows.append([record.get(key) for key in KEYS] if whole else line[:200])
    return rows


@contextmanager
def _folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as name:
        yield Path(name)


def _values(model: nn.Module) -> list[Tensor]:
    return [p.detach().clone() for p in model.parameters()]


def _plain(x: Any) -> Any:
    return x.item() if isinstance(x, Tensor | np.generic) else x


@contextmanager
def _read_only_allowed() -> Iterator[None]:
    """torch warns of a read-only array wherever one is given to from_numpy, also where nothing writes to it."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="The given NumPy array is not writ")
        yield
