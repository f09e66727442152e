"""Probes for training.py: whole runs of small models that record their calls, and killed runs.

A model here predicts the next token from the current token only, so the model is small and the
order of a batch's rows does not matter. The inputs of the model and of the optimizer are recorded.

A kill leaves the files as they are at that moment. So one run, in its own process, copies its
folder at each point where it would be killed, and another run starts from each copy. A process is
really killed only in the middle of writing a checkpoint.
"""

import json
import os
import pickle
import resource
import shutil
import signal
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import chdir, contextmanager, nullcontext
from pathlib import Path
from typing import Any, TypedDict

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from kit.student import seed_generators

Array = np.ndarray[Any, Any]
FIELDS = ("losses", "learning_rates", "grad_norms", "eval_losses", "first_step")
KEYS = ("step", "loss", "lr", "grad_norm")
MOST_COPIES = 40  # of a run's folder


class Passes(TypedDict):
    """The tokens that the model is given, with one entry per forward pass."""

    tokens: list[Tensor]
    steps_before: list[int]  # earlier steps of the optimizer


class Forwards(Passes):
    """The calls of the model, with one entry per forward pass."""

    logits: list[Tensor]  # only on request
    modes: list[str]  # "training", "eval" or "mixed"
    grad_enabled: list[bool]


class Steps(TypedDict):
    """The inputs of the optimizer, with one entry per step."""

    learning_rates: list[list[Any]]  # of each group
    parameters: list[list[Tensor]]
    gradients: list[list[Any]]


class Run(TypedDict):
    """One run: TrainResult's fields, and what was recorded.

    If a FloatingPointError was raised, its text replaces the fields.
    """

    result: Any
    error: str | None
    forwards: Forwards
    steps: Steps
    parameters: list[Tensor]
    state_dtypes: list[torch.dtype]
    mode: str  # after the run


class Ended(TypedDict):
    """How a run ended: TrainResult's fields, and the parameters."""

    result: Any
    parameters: list[Tensor]


class Followed(Ended):
    """How a run ended, and the tokens on its way there."""

    forwards: Passes


class Endless(TypedDict):
    """The result of `trained_on_endless_data`: the losses, and the tokens of each forward pass."""

    losses: list[float]
    tokens: list[Tensor]


class KilledRuns(TypedDict):
    """The result of `killed`: an unstopped run, and for each kill the run started again."""

    whole: Followed
    results: list[Any]
    parameters: list[list[Tensor]]
    lines_when_killed: list[int]  # of the log
    logs: list[list[Any]]


class Resumed(TypedDict):
    """The result of a run that was killed and resumed, and its log."""

    result: Any
    log: list[Any]


class Bigram(nn.Module):
    """Logits of the next token: the current one's embedding, perhaps with dropout, times a matrix.

    Args:
        embedding: Of shape (vocabulary, width).
        head: Of shape (vocabulary, width).
        dropout: Fraction of the embedding that is dropped in training mode.
        noise: Standard deviation of the noise that is added to the logits in either mode.
        unused: Whether the model has a parameter that never gets a gradient.
        frozen: Whether that parameter is frozen.
        average: Whether the model has a buffer: a running mean of the embeddings in training mode,
            which it subtracts in eval mode.
    """

    def __init__(
        self,
        embedding: Tensor,
        head: Tensor,
        *,
        dropout: float = 0.0,
        noise: float = 0.0,
        unused: bool = False,
        frozen: bool = False,
        average: bool = False,
    ) -> None:
        super().__init__()
        self.average: Tensor | None
        self.register_buffer("average", torch.zeros(embedding.shape[1]) if average else None)
        self.embedding = nn.Parameter(embedding.clone())
        self.head = nn.Parameter(head.clone())
        self.unused = nn.Parameter(torch.ones(3), requires_grad=not frozen) if unused else None
        # In a module of its own, so that a mode may differ from those of two modules around it.
        self.block = nn.Sequential(nn.Dropout(dropout))
        self.noise = noise
        self.on_forward: Callable[[Tensor, Tensor], Tensor] = lambda tokens, logits: logits

    def forward(self, tokens: Tensor) -> Tensor:
        """Return the logits, as changed by `on_forward`."""
        x = self.block(F.embedding(tokens, self.embedding))
        if self.average is not None and self.training:
            self.average.lerp_(x.detach().mean((0, 1)), 0.1)
        elif self.average is not None:
            x = x - self.average
        logits = F.linear(x, self.head)
        if self.noise:
            logits = logits + self.noise * torch.randn(logits.shape[-1], device=logits.device)
        return self.on_forward(tokens, logits)


class Watch:
    """Records the calls of a model and an optimizer, and breaks a loss on request.

    Args:
        model: The model to watch.
        optimizer: The optimizer to watch.
        folder: The folder of the run's files.
        kill_at: Numbers of forward passes at which the folder is copied, to "<folder> 0", "<folder>
            1" and so on. In such a run, gradients are cleared after each step, so that a forgotten
            zero_grad is not counted as a second mistake.
        break_at: Number of steps after which the loss is not finite.
        break_only: The number of the only forward pass of that step that is broken; None for all.
        infinite: Whether that loss is infinite instead of NaN.
        keep_logits: Whether to record the logits as well.
    """

    def __init__(
        self,
        model: Bigram,
        optimizer: torch.optim.Optimizer,
        folder: Path,
        *,
        kill_at: Sequence[int] | None = None,
        break_at: int | None = None,
        break_only: int | None = None,
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
        self.breaks, self._break_only = break_at is not None, break_only
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
        self.forwards["modes"].append(self.mode())
        self.forwards["grad_enabled"].append(torch.is_grad_enabled())
        self.forwards["steps_before"].append(len(self.steps["parameters"]))
        if self._keep_logits:
            self.forwards["logits"].append(logits.detach().clone())
        step = len(self.steps["parameters"])
        place = self.forwards["steps_before"].count(step) - 1
        broken = step == self._break_at and self._break_only in (None, place)
        return self._broken(logits) if broken else logits

    def mode(self) -> str:
        """The mode of all of the model's modules."""
        modes = {module.training for module in self._model.modules()}
        return "mixed" if len(modes) > 1 else "training" if True in modes else "eval"

    def _broken(self, logits: Tensor) -> Tensor:
        if not self._infinite:
            return logits * float("nan")
        first = torch.arange(logits.shape[-1]) == 0
        # Every target except token 0 has probability 0.
        return logits * 0 + torch.where(first, 0.0, -torch.inf)

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


def passes(student: Any, **run: Any) -> Passes:
    """The tokens of the same run, without its other records."""
    return _followed(trained(student, **run))["forwards"]


def one_after_the_other(
    student: Any, *, runs: Sequence[dict[str, Any]], **shared: Any
) -> tuple[list[Ended], list[list[Any]]]:
    """Runs in one folder, with shared and own inputs, and the log after each of them.

    It is the working folder, and the paths are bare file names.
    """
    done: list[Ended] = []
    logs = []
    with _folder() as folder, chdir(folder):
        for run in runs:
            got = _run(student, Path(), **{**shared, **run})
            done.append({"result": got["result"], "parameters": got["parameters"]})
            logs.append(_log(Path()))
    return done, logs


def trained_on_a_file(student: Any, *, train_tokens: Array, dtype: str, **run: Any) -> Followed:
    """A run on tokens in a raw file, memory-mapped and read-only."""
    tokens = {"train_tokens": train_tokens, "val_tokens": run.pop("val_tokens")}
    with _folder() as folder, _read_only_allowed():
        for name, values in tokens.items():
            values.astype(dtype).tofile(folder / name)
            run[name] = np.memmap(folder / name, dtype=dtype, mode="r")
        return _followed(_run(student, folder, **run))


def _followed(run: Run) -> Followed:
    """The part of a run's records that tells how it got to its end."""
    asked = run["forwards"]
    return {
        "result": run["result"],
        "parameters": run["parameters"],
        "forwards": {"tokens": asked["tokens"], "steps_before": asked["steps_before"]},
    }


def trained_on_endless_data(
    student: Any, *, token: int, length: int, **run: Any
) -> tuple[Endless | None, str | None]:
    """A run on `length` equal tokens, or the name of its error.

    Only one token is in memory: the array has stride 0.
    """
    tokens = np.lib.stride_tricks.as_strided(np.full(1, token, dtype=np.uint16), (length,), (0,))
    try:
        got = trained(student, train_tokens=tokens, **run)
    except NotImplementedError:
        raise
    except (IndexError, MemoryError, RuntimeError, ValueError) as e:
        return None, type(e).__name__
    fields = got["result"] if isinstance(got["result"], dict) else {}
    losses = fields.get("losses")
    kept = [x for x in losses if isinstance(x, float)] if isinstance(losses, list) else []
    return {"losses": kept[: run["config"]["steps"]], "tokens": got["forwards"]["tokens"]}, None


def killed(
    student: Any,
    *,
    kill_at: Sequence[int],
    leave: Sequence[str] = (),
    again: bool = True,
    twice: bool = False,
    **run: Any,
) -> KilledRuns:
    """An unstopped run, and for each of these forward passes a run killed there and started again.

    A run that is started again is in another process, with a new model and a new optimizer.

    Args:
        student: The student's package.
        kill_at: Numbers of forward passes. They need not all be reached.
        leave: For each kill, text to add at the end of the log.
        again: Whether the killed runs are started again.
        twice: Whether they are then killed in their first forward pass and started once more.
        run: The inputs of `_run`.
    """
    with _folder() as root, _one_thread():
        whole = _elsewhere(student, root / "run", watch={"kill_at": kill_at}, **run)
        answer: KilledRuns = {
            "whole": _followed(whole),
            "results": [],
            "parameters": [],
            "lines_when_killed": [],
            "logs": [],
        }
        for place, text in enumerate(leave or [""] * len(kill_at)):
            folder = _as_it_was_left(root, place)
            if text:
                with open(folder / "log", "a") as log:
                    log.write(text)
            answer["lines_when_killed"].append(len(_log(folder)))
            if not again:
                continue
            if twice:
                _run(student, folder, watch={"kill_at": [0]}, **_renewed(run, folder))
                folder = _as_it_was_left(root, 0)
            done = _run(student, folder, watch={"kill_at": ()}, **_renewed(run, folder))
            answer["results"].append(done["result"])
            answer["parameters"].append(done["parameters"])
            answer["logs"].append(_log(folder))
    return answer


def killed_at_each_change(student: Any, **run: Any) -> list[Resumed]:
    """Runs that are killed whenever the checkpoint or the log has changed, and resumed.

    They come in the order of the kills. A run that cannot be resumed is left out.
    """
    resumed: list[Resumed] = []
    with _folder() as root, _one_thread():
        _elsewhere(student, root / "run", copies=True, **run)
        for place in range(len(list(root.iterdir())) - 1):
            folder = _as_it_was_left(root, place)
            try:
                done = _run(student, folder, **_renewed(run, folder))
            except NotImplementedError:
                raise
            # Half a checkpoint fails in many ways; other probes judge it.
            except Exception:
                continue
            resumed.append({"result": done["result"], "log": _log(folder)})
    return resumed


@contextmanager
def _copied_at_each_change(folder: Path) -> Iterator[None]:
    """Copy a folder to "<folder> 0", "<folder> 1" … when its checkpoint or its log has changed.

    Look for changes after each function call, so that no moment is missed; not after the many calls
    inside torch, of which only those in its serialization write files.
    """
    names = (f"{folder}/checkpoint", f"{folder}/log")
    inside, writes = os.path.dirname(torch.__file__), torch.serialization.__file__
    seen = [(-1, -1)]

    def look(frame: Any, event: str, arg: Any) -> None:
        if event.endswith("call") or len(seen) > MOST_COPIES:
            return
        file = frame.f_code.co_filename
        if file.startswith(inside) and file != writes:
            return
        checkpoint, log = map(_status, names)
        now = (checkpoint.st_ino if checkpoint else -1, log.st_size if log else -1)
        if now != seen[-1]:
            shutil.copytree(folder, f"{folder} {len(seen) - 1}")
            seen.append(now)

    sys.setprofile(look)
    try:
        yield
    finally:
        sys.setprofile(None)


def _status(name: str) -> os.stat_result | None:
    try:
        return os.stat(name)
    except OSError:
        return None


def _as_it_was_left(root: Path, place: int) -> Path:
    """The folder "run" at the time of the first, second, … kill, at the same path."""
    here, copied = root / "run", root / f"run {place}"
    shutil.rmtree(here)
    if copied.exists():
        copied.rename(here)
    else:
        here.mkdir()
    return here


def killed_while_writing(student: Any, *, kill_at: int, **run: Any) -> tuple[Any, Any]:
    """The results of a run, and of one killed in the middle of a checkpoint and started again.

    The second run is first killed in forward pass `kill_at`, after it has written a checkpoint.
    It then resumes with a limit on file sizes of half that checkpoint, and the attempt to write
    more kills it.
    """
    with _folder() as root, _one_thread():
        whole = _elsewhere(student, root / "run", watch={"kill_at": [kill_at]}, **run)
        folder = _as_it_was_left(root, 0)
        checkpoint = folder / "checkpoint"
        size = checkpoint.stat().st_size if checkpoint.is_file() else 0
        run["watch"] = {"kill_at": ()}
        _in_a_process(student, folder, largest_file=size // 2, **_renewed(run, folder))
        return whole["result"], _run(student, folder, **_renewed(run, folder))["result"]


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
    asleep: bool = False,
    seed_before: int = 0,
    copies: bool = False,
) -> Run:
    """Train a new model with a new optimizer.

    Args:
        parameters: The initial embedding and head.
        config: Fields of TrainConfig; paths are inside `folder`.
        optimizer: A class of torch.optim.
        groups: Number of parameter groups: 1, 2, or 3 for a group of each parameter.
        model: Options of Bigram.
        watch: Options of Watch.
        gradients_before: Whether every parameter already has a gradient.
        eval_before: Whether the model is passed in eval mode.
        asleep: Whether its dropout alone is passed in eval mode.
        seed_before: The seed for the global generators of torch, numpy and random before the run.
        copies: Whether to copy the folder whenever its checkpoint or its log has changed.
    """
    network = Bigram(*parameters, **(model or {}))
    members = list(network.parameters())
    parts = {1: [], 2: [members[1:]], 3: [[p] for p in members[1:]]}[groups]
    grouped: list[Any] = (
        [{"params": members[:1]}, *({"params": part, "lr": 0.5} for part in parts)]
        if parts
        else members
    )
    stepper = getattr(torch.optim, optimizer)(grouped, lr=0.25)
    watcher = Watch(network, stepper, folder, **(watch or {}))
    network.train(not eval_before)
    if asleep:
        network.block[0].eval()
    if gradients_before:
        for p in members:
            p.grad = torch.full_like(p, 3.0)
    paths: dict[str, Any] = {
        key: str(folder / config[key]) for key in ("checkpoint_path", "log_path") if key in config
    }
    made = student.training.TrainConfig(**(config | paths))
    seed_generators(seed_before)
    result, error = None, None
    # Without tokens to evaluate on, and without evaluations, the argument is left out.
    tokens = {} if val_tokens is None and not made.eval_every else {"val_tokens": val_tokens}
    try:
        with _copied_at_each_change(folder) if copies else nullcontext():
            got = student.training.train(network, stepper, train_tokens, made, **tokens)
        result = _fields(got)
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
        "mode": watcher.mode(),
        "state_dtypes": [
            v.dtype for s in stepper.state.values() for v in s.values() if isinstance(v, Tensor)
        ],
    }


def _fields(result: Any) -> Any:
    """The fields of a TrainResult as plain data, with numpy's numbers as Python's.

    Any other result is returned unchanged.
    """
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
    """The same run as a new process would start it, with another RNG state.

    Weights that can be loaded are different, too.
    """
    others = {"parameters": [torch.full_like(p, 0.5) for p in run["parameters"]]}
    return {**run, "seed_before": 99, **(others if (folder / "checkpoint").exists() else {})}


def _elsewhere(student: Any, folder: Path, **run: Any) -> Run:
    """Run in a new folder and in its own process.

    If the run ends with an exception, it is repeated in this process, which raises it.
    """
    folder.mkdir()
    done = _in_a_process(student, folder, **run)
    return _run(student, folder, **run) if done is None else done


def _in_a_process(
    student: Any, folder: Path, *, largest_file: int | None = None, **run: Any
) -> Run | None:
    """Run in a separate process; return None if that process ended before the run did.

    The process is a fork of this one, because no other program can be started here. It writes its
    result to a file.
    """
    with _folder() as elsewhere:
        answer = elsewhere / "answer"
        with warnings.catch_warnings():
            # Ignore the warning about forking with threads: the forked process does not need them.
            warnings.simplefilter("ignore", DeprecationWarning)
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
    """Use one thread in torch, because a different number of threads adds in a different order.

    A fork of this process has none of its other threads.
    """
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _limit_files(size: int) -> None:
    """Let this process be killed when it writes a file past this size."""
    signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))


def _log(folder: Path) -> list[Any]:
    """Each line of the log as the values of the four keys, or as text if it is no JSON object."""
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
    """Ignore torch's warning about read-only arrays.

    torch raises it whenever from_numpy gets such an array, even if nothing writes to it.
    """
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="The given NumPy array is not writ")
        yield
