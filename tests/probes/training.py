"""Probes for training.py: whole runs of small models that record their calls, and killed runs.

A model here predicts the next token from the current token only, so the model is small and the
order of a batch's rows does not matter. The inputs of the model and of the optimizer are recorded.

A kill leaves the files as they are at that moment. So one run copies its folder at each point where
it would be killed, and another run, with a new model and a new optimizer, starts from each copy. A
process is really killed only in the middle of writing a checkpoint.
"""

import json
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import chdir, contextmanager
from pathlib import Path
from typing import Any, TypedDict

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from kit.student import seed_generators
from tests.probes import part
from tests.probes.checkpointing import killed_by_a_large_file
from tests.probes.data import read_only_allowed

Array = np.ndarray[Any, Any]
FIELDS = ("losses", "learning_rates", "grad_norms", "eval_losses", "first_step")
KEYS = ("step", "loss")


class Forwards(TypedDict):
    """The calls of the model, with one entry per forward pass."""

    tokens: list[Tensor]  # each window's are sorted, unless asked for in order
    logits: list[Tensor]  # only on request
    training: list[bool]  # the model's mode
    grad_enabled: list[bool]
    steps_before: list[int]  # earlier steps of the optimizer


class Steps(TypedDict):
    """The inputs of the optimizer, with one entry per step."""

    learning_rates: list[list[Any]]  # of each group
    parameters: list[list[Tensor]]
    gradients: list[list[Any]]


class Returned(TypedDict):
    """TrainResult's fields; None if a FloatingPointError stopped the run."""

    result: Any
    stopped: bool


class Trained(Returned):
    """One run: its result, and what was recorded."""

    forwards: Forwards
    steps: Steps
    parameters: list[Tensor]
    has_float32_state: bool  # of the optimizer
    autocast_in_backward: bool


class Run(Trained):
    """One run, and its log."""

    log: list[Any]
    lines: list[int]  # in the log, at each forward pass


class Ended(Returned):
    """The part of a run's records that tells how it ended."""

    parameters: list[Tensor]
    log: list[Any]


class Logged(Ended):
    """How a run ended, and how its log grew."""

    lines: list[tuple[int, int]]  # of each training pass: earlier steps, and lines in the log


class Compared(TypedDict):
    """A run with evaluations beside the same run without: how many leading entries agree."""

    batches: int
    losses: int
    parameters: int
    evaluated: int  # forward passes without gradients


class KilledRuns(TypedDict):
    """An unstopped run, and for each kill the run that was started again."""

    whole: Ended
    again: list[Ended]


class Bigram(nn.Module):
    """Logits of the next token: the current one's embedding, perhaps with dropout, times a matrix.

    Args:
        embedding, head: Of shape (vocabulary, width).
        dropout: Fraction of the embedding's weights that are dropped in training mode.
        unused: Whether the model has a parameter that never gets a gradient.
        frozen: Whether that parameter is frozen.
        average: Whether the model has a buffer: a running mean of the embeddings in training mode,
            which it subtracts in eval mode.
        louder: Whether `Watch` multiplies the logits of forward pass k, from 0, by k + 1.
    """

    def __init__(
        self,
        embedding: Tensor,
        head: Tensor,
        *,
        dropout: float = 0.0,
        unused: bool = False,
        frozen: bool = False,
        average: bool = False,
        louder: bool = False,
    ) -> None:
        super().__init__()
        self.average: Tensor | None
        self.register_buffer("average", torch.zeros(embedding.shape[1]) if average else None)
        self.embedding = nn.Parameter(embedding.clone())
        self.head = nn.Parameter(head.clone())
        self.tied = nn.ParameterList([self.head])  # the same weight under another name
        self.unused = nn.Parameter(torch.ones(3), requires_grad=not frozen) if unused else None
        self.dropout = nn.Dropout(dropout)
        self.louder = louder
        self.on_forward: Callable[[Bigram, Tensor, Tensor], Tensor] = lambda _, tokens, logits: (
            logits
        )

    def forward(self, tokens: Tensor) -> Tensor:
        """Return the logits, as changed by `on_forward`."""
        # Of the weights: which are dropped does not depend on the batch.
        x = F.embedding(tokens, self.dropout(self.embedding))
        if self.average is not None and self.training:
            self.average.lerp_(x.detach().mean((0, 1)), 0.1)
        elif self.average is not None:
            x = x - self.average
        return self.on_forward(self, tokens, F.linear(x, self.head))


class Watch:
    """Records the calls of a model and an optimizer, and breaks a loss on request.

    Args:
        kill_at: Numbers of steps after which the folder is copied, in the next forward pass, to
            "<folder> 0", "<folder> 1" and so on. In such a run, gradients are cleared after each
            step, so that a forgotten zero_grad is not counted as a second mistake.
        break_at: Number of steps after which the loss of the first forward pass is not finite.
        infinite: Whether that loss is infinite instead of NaN.
        keep_logits: Whether to record the logits as well.
        in_order: Whether the tokens of a window are recorded in their order. Otherwise they are
            sorted, so that windows of periodic data are equal wherever they begin.
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
        in_order: bool = False,
    ) -> None:
        self.forwards: Forwards = {
            "tokens": [],
            "logits": [],
            "training": [],
            "grad_enabled": [],
            "steps_before": [],
        }
        self.lines: list[int] = []
        self.steps: Steps = {"learning_rates": [], "parameters": [], "gradients": []}
        self._model, self._folder, self._kill_at = model, folder, kill_at or ()
        self._break_at, self._infinite = break_at, infinite
        self._keep_logits, self._in_order = keep_logits, in_order
        self.autocast_in_backward = False
        model.on_forward = self._on_forward
        optimizer.register_step_pre_hook(self._before_step)
        if kill_at is not None:
            optimizer.register_step_post_hook(self._clear_gradients)

    def __deepcopy__(self, memo: dict[int, Any]) -> "Watch":
        """A copy of the model, which may be evaluated in its place, is watched, too."""
        return self

    def _on_forward(self, model: Bigram, tokens: Tensor, logits: Tensor) -> Tensor:
        step = len(self.steps["parameters"])
        breaks = step == self._break_at and step not in self.forwards["steps_before"]
        for place, at in enumerate(self._kill_at):
            if at == step and step not in self.forwards["steps_before"]:
                shutil.copytree(self._folder, f"{self._folder} {place}", dirs_exist_ok=True)
        if model.louder:
            logits = logits * (len(self.forwards["tokens"]) + 1)
        kept, places = tokens.sort() if not self._in_order else (tokens.clone(), None)
        self.forwards["tokens"].append(kept)
        self.forwards["training"].append(model.training)
        self.forwards["grad_enabled"].append(torch.is_grad_enabled())
        self.forwards["steps_before"].append(step)
        self.lines.append(len(_log(self._folder)))
        if self._keep_logits:
            same = logits.detach().clone()
            if places is not None:
                same = same.gather(1, places[..., None].expand_as(same))  # of sorted tokens
            self.forwards["logits"].append(same)
            if logits.requires_grad:
                logits.register_hook(self._on_backward)  # type: ignore[no-untyped-call]
        return self._broken(logits) if breaks else logits

    def _on_backward(self, gradient: Tensor) -> None:
        self.autocast_in_backward |= torch.is_autocast_enabled("cpu")

    def _broken(self, logits: Tensor) -> Tensor:
        if not self._infinite:
            return logits * float("nan")
        first = torch.arange(logits.shape[-1]) == 0
        # Every target except token 0 has probability 0.
        return logits * 0 + torch.where(first, 0.0, -torch.inf)

    def _before_step(self, optimizer: torch.optim.Optimizer, args: Any, kwargs: Any) -> None:
        rates = [group["lr"] for group in optimizer.param_groups]
        self.steps["learning_rates"].append(
            [lr.item() if isinstance(lr, Tensor | np.generic) else lr for lr in rates]
        )
        self.steps["parameters"].append(_values(self._model))
        self.steps["gradients"].append(
            [None if p.grad is None else p.grad.detach().clone() for p in self._model.parameters()]
        )

    def _clear_gradients(self, optimizer: torch.optim.Optimizer, args: Any, kwargs: Any) -> None:
        for p in self._model.parameters():
            if p.grad is not None:
                p.grad.zero_()


def trained(student: Any, **inputs: Any) -> Trained:
    """One run in this process; the inputs are those of `_run`."""
    with _folder() as folder:
        run = _run(student, folder, **inputs)
    return part(Trained, run)


def one_after_the_other(
    student: Any, *, runs: Sequence[dict[str, Any]], **shared: Any
) -> list[Logged]:
    """Runs in one folder, with shared and own inputs.

    It is the working folder, and the paths are bare file names.
    """
    with _folder() as folder, chdir(folder):
        return [_logged(student, Path(), **{**shared, **run}) for run in runs]


def _logged(student: Any, folder: Path, *, val_tokens: Array, **inputs: Any) -> Logged:
    run = _run(student, folder, val_tokens=val_tokens, **inputs)
    passes, first = run["forwards"], int(val_tokens.min())  # all training tokens are smaller
    places = zip(passes["tokens"], passes["steps_before"], run["lines"], strict=True)
    lines = [(step, count) for tokens, step, count in places if int(tokens.max()) < first]
    return {**part(Ended, run), "lines": lines}


def trained_on_endless_data(
    student: Any, *, token: int, length: int, **run: Any
) -> tuple[Returned, list[Tensor]]:
    """A run on `length` equal tokens, only one of which is in memory: the array has stride 0.

    They are the validation tokens, too. Returns the result, and the tokens of each forward pass
    before the first step.
    """
    tokens = np.lib.stride_tricks.as_strided(np.full(1, token, dtype=np.uint16), (length,), (0,))
    got = trained(student, train_tokens=tokens, val_tokens=tokens, **run)
    seen = got["forwards"]
    pairs = zip(seen["tokens"], seen["steps_before"], strict=True)
    return part(Returned, got), [tokens for tokens, step in pairs if not step]


def with_and_without_evaluations(student: Any, *, config: dict[str, Any], **run: Any) -> Compared:
    """How far a run with evaluations is the same as one without."""
    runs = [
        trained(student, config={**config, "eval_every": every}, **run)
        for every in (config["eval_every"], 0)
    ]
    first = int(run["val_tokens"].min())  # all training tokens are smaller
    drawn = [[x for x in r["forwards"]["tokens"] if int(x.max()) < first] for r in runs]
    fields = [r["result"] if isinstance(r["result"], dict) else {"losses": []} for r in runs]
    return {
        "batches": _agreeing(*drawn),
        "losses": _agreeing(*(f["losses"] for f in fields)),
        "parameters": _agreeing(*(r["parameters"] for r in runs)),
        "evaluated": len(runs[0]["forwards"]["tokens"]) - len(drawn[0]),
    }


def _agreeing(a: list[Any], b: list[Any]) -> int:
    """The number of leading entries that are equal."""
    both = [[torch.as_tensor(x, dtype=torch.float64) for x in values] for values in (a, b)]
    return [*(torch.equal(x, y) for x, y in zip(*both, strict=False)), False].index(False)


def killed(
    student: Any, *, kill_at: Sequence[int], leave: Sequence[str] = (), **run: Any
) -> KilledRuns:
    """An unstopped run, and runs that are killed after so many steps and started again.

    A run that is started again has a new model and a new optimizer.

    Args:
        kill_at: Numbers of steps. They need not all be reached.
        leave: For each kill, text to add at the end of the log.
    """
    with _folder() as root:
        whole = _run(student, root / "run", watch={"kill_at": kill_at}, **run)
        again: list[Ended] = []
        for place, text in enumerate(leave or [""] * len(kill_at)):
            folder = _as_it_was_left(root, place)
            if text:
                with open(folder / "log", "a") as log:
                    log.write(text)
            done = _run(student, folder, watch={"kill_at": ()}, **_renewed(run, folder))
            again.append(part(Ended, done))
        return {"whole": part(Ended, whole), "again": again}


def _finish(student: Any, folder: Path, run: dict[str, Any]) -> None:
    _run(student, folder, **_renewed(run, folder))


def _as_it_was_left(root: Path, place: int) -> Path:
    """The folder "run" at the time of the first, second, … kill, at the same path."""
    here, copied = root / "run", root / f"run {place}"
    shutil.rmtree(here)
    if copied.exists():
        copied.rename(here)
    else:
        here.mkdir()
    return here


def killed_while_writing(
    student: Any, *, kill_at: int, **run: Any
) -> tuple[Returned, Returned, str]:
    """A run, and one that was killed in the middle of a checkpoint, when it was started again.

    If the second run cannot be started again, the exception's name is the third part.

    The second run is first killed after `kill_at` steps, and after it has written a checkpoint.
    It then resumes with a limit on file sizes of half that checkpoint, and the attempt to write
    more kills it.
    """
    with _folder() as root:
        whole = _run(student, root / "run", watch={"kill_at": [kill_at]}, **run)
        folder = _as_it_was_left(root, 0)
        checkpoint = folder / "checkpoint"
        size = checkpoint.stat().st_size if checkpoint.is_file() else 0
        run["watch"] = {"kill_at": ()}
        killed_by_a_large_file(lambda: _finish(student, folder, run), size // 2)
        try:
            again = _run(student, folder, **_renewed(run, folder))
        except NotImplementedError:
            raise
        except Exception as e:
            return part(Returned, whole), {"result": None, "stopped": False}, type(e).__name__
        return part(Returned, whole), part(Returned, again), ""


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
    stored_as: str | None = None,
    seed_before: int = 0,
) -> Run:
    """Train a new model with a new optimizer.

    Args:
        parameters: The initial embedding and head.
        config: Fields of TrainConfig; paths are inside `folder`.
        optimizer: A class of torch.optim.
        groups: Number of parameter groups: 1, 2, or 3 for a group of each parameter.
        model: Options of Bigram.
        watch: Options of Watch.
        stored_as: The dtype of a file with train_tokens, which is then memory-mapped and read-only.
        seed_before: The seed for the global generators of torch, numpy and random before the run.
    """
    folder.mkdir(exist_ok=True)
    network = Bigram(*parameters, **(model or {}))
    members = list(network.parameters())
    parts = {1: [], 2: [members[1:]], 3: [[p] for p in members[1:]]}[groups]
    grouped: list[Any] = (
        [{"params": members[:1]}, *({"params": part, "lr": 0.5} for part in parts)]
        if parts
        else members
    )
    # With AdamW's own epsilon, the rounding of a gradient near 0 decides how far a weight moves.
    options = {"eps": 1e-3} if optimizer == "AdamW" else {}
    stepper = getattr(torch.optim, optimizer)(grouped, lr=0.25, **options)
    watcher = Watch(network, stepper, folder, **(watch or {}))
    if stored_as:
        train_tokens.astype(stored_as).tofile(folder / "tokens")
        train_tokens = np.memmap(folder / "tokens", dtype=stored_as, mode="r")
    paths: dict[str, Any] = {
        key: str(folder / config[key]) for key in ("checkpoint_path", "log_path") if key in config
    }
    made = student.training.TrainConfig(**(config | paths))
    seed_generators(seed_before)
    result, stopped = None, False
    # Without tokens to evaluate on, the argument is left out.
    tokens = {} if val_tokens is None else {"val_tokens": val_tokens}
    try:
        with read_only_allowed():
            got = student.training.train(network, stepper, train_tokens, made, **tokens)
        result = _fields(got)
    except FloatingPointError:
        stopped = True
        if "break_at" not in (watch or {}):
            raise
    kept = [x for s in stepper.state.values() for x in s.values() if isinstance(x, Tensor)]
    return {
        "result": result,
        "stopped": stopped,
        "forwards": watcher.forwards,
        "steps": watcher.steps,
        "parameters": _values(network),
        "has_float32_state": all(x.dtype == torch.float32 for x in kept),
        "autocast_in_backward": watcher.autocast_in_backward,
        "log": _log(folder),
        "lines": watcher.lines,
    }


def _fields(result: Any) -> Any:
    """The fields of a TrainResult as plain data, with numpy's numbers as Python's.

    All floats are rounded to float32: programs that add up float32 losses in another order then
    give answers that are known to be equal, so that mistakes can be named. Of any other result
    only the type's name is returned: it may be as large as the data.
    """
    if not all(hasattr(result, name) for name in FIELDS):
        return None if result is None else type(result).__name__
    return {name: _python(getattr(result, name)) for name in FIELDS}


def _python(x: Any) -> Any:
    if isinstance(x, list):
        return [_python(v) for v in x]
    if isinstance(x, Mapping):
        return {_python(key): _python(v) for key, v in x.items()}
    x = x.item() if isinstance(x, np.integer | np.floating) else x
    return torch.tensor(x, dtype=torch.float32).item() if isinstance(x, float) else x


def _renewed(run: dict[str, Any], folder: Path) -> dict[str, Any]:
    """The same run as a new process would start it, with another RNG state.

    Weights that can be loaded are different, too.
    """
    others = {"parameters": [torch.full_like(p, 0.5) for p in run["parameters"]]}
    return {**run, "seed_before": 99, **(others if (folder / "checkpoint").exists() else {})}


def _log(folder: Path) -> list[Any]:
    """Each line of the log as the values of its keys, or as text if it is no JSON object."""
    path = folder / "log"
    rows: list[Any] = []
    for line in path.read_text().splitlines(keepends=True) if path.exists() else []:
        try:
            record = json.loads(line)
        except ValueError:
            record = None
        whole = isinstance(record, dict) and line.endswith("\n")
        rows.append([_python(record.get(key)) for key in KEYS] if whole else line[:200])
    return rows


@contextmanager
def _folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as name:
        yield Path(name)


def _values(model: nn.Module) -> list[Tensor]:
    return [p.detach().clone() for p in model.parameters()]
