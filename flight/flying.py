"""One flight: settings, a live line while the loop runs, and the record that it leaves."""

import json
import threading
import time
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, TextIO

import numpy as np
import torch

from flight import given, prediction, training_text
from flight.model import SIZES, Chick, Size, write
from flight.parts import Parts

LOOK_SECONDS = 0.1
WARM_UP = 3  # steps that the time of a step leaves out
PROMPT = "def "
WRITTEN = 300  # bytes of the sample
RATES = {"chick": 1e-3, "egg": 2e-3, "wren": 2e-4}


@dataclass(frozen=True)
class Settings:
    """The switches of a flight.

    Args:
        size: "chick" (10 million parameters) or "egg" (1 million).
        steps: Steps of the flight.
        batch: Sequences of a step.
        micro_batch: Sequences that go through the model at a time.
        segments: Checkpointed segments of layers; 0 for none.
        autocast: Whether products run in bfloat16.
        momentum: Whether AdamW averages gradients over steps.
        warmup: Whether the learning rate rises from 0 at the start.
        device: "cpu" or "cuda".
        seed: Seed of weights and batches.
    """

    size: str
    steps: int
    batch: int
    micro_batch: int
    segments: int = 0
    autocast: bool = False
    momentum: bool = True
    warmup: bool = True
    device: str = "cpu"
    seed: int = 0

    @property
    def shape(self) -> Size:
        """The model's sizes, with this batch."""
        return replace(SIZES[self.size], batch=self.batch, steps=self.steps)

    @property
    def name(self) -> str:
        """The name of the flight: its size, and each switch that is not as usual."""
        usual = SIZES[self.size]
        words = [self.size]
        words += [f"{self.steps} steps"] if self.steps != usual.steps else []
        words += [f"batch {self.batch}"] if self.batch != usual.batch else []
        words += [f"micro-batch {self.micro_batch}"] if self.micro_batch != self.batch else []
        words += [f"{self.segments} segments"] if self.segments else []
        words += ["autocast"] if self.autocast else []
        words += ["no momentum"] if not self.momentum else []
        words += ["no warm-up"] if not self.warmup else []
        words += [f"seed {self.seed}"] if self.seed else []
        return ", ".join(words)


@dataclass
class Record:
    """What a flight leaves for the page: settings, curve and table."""

    name: str
    own: list[str]
    losses: list[float]
    entropy: float
    rows: list[dict[str, Any]]
    sample: str


class Live:
    """Follows the loop's log from another thread, and says how the flight goes."""

    def __init__(
        self, log: Path, settings: Settings, flops: float | None, peak: float, out: TextIO
    ):
        self._log, self._settings, self._out = log, settings, out
        self._flops, self._peak = flops, peak
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._follow, daemon=True)
        self._said = 0
        self._read, self._steps = 0, 0  # bytes of the log, and whole lines in them
        self.times: list[tuple[int, float]] = []

    def __enter__(self) -> "Live":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        if self._out.isatty():
            self._out.write("\n")

    @property
    def seconds(self) -> float | None:
        """The mean time of a step, without the first ones; None if too few have been seen."""
        later = [seen for seen in self.times if seen[0] >= self.times[0][0] + WARM_UP]
        if len(later) < 2:
            return None
        (first, begin), (last, end) = later[0], later[-1]
        return (end - begin) / (last - first)

    def _follow(self) -> None:
        while not self._stop.wait(LOOK_SECONDS):
            with suppress(OSError, ValueError):
                self._look()
        with suppress(OSError, ValueError):
            self._look()

    def _look(self) -> None:
        with self._log.open("rb") as log:
            if log.seek(0, 2) < self._read:  # the loop has cut its log back to its checkpoint
                self._read, self._steps, self.times = 0, 0, []
            log.seek(self._read)
            new, newline, _ = log.read().rpartition(b"\n")
        if not newline:
            return
        self._read += len(new) + 1
        losses = losses_in(new.decode())
        self._steps += len(losses)
        self.times.append((self._steps, time.monotonic()))
        if losses and self.seconds:
            self._say(self._steps, losses[-1], self.seconds)

    def _say(self, steps: int, loss: float, seconds: float) -> None:
        left = round((self._settings.steps - steps) * seconds)
        line = f"step {steps}/{self._settings.steps}  loss {loss:.3f}  "
        line += f"{self._settings.shape.tokens / seconds:,.0f} tokens/s  "
        if self._flops:
            line += f"MFU {self._flops / seconds / self._peak:.0%}  "
        line += f"{left // 60}:{left % 60:02} left"
        if self._out.isatty():
            self._out.write(f"\r{line:<78}")
        elif steps // max(1, self._settings.steps // 10) > self._said:
            self._said = steps // max(1, self._settings.steps // 10)
            self._out.write(line + "\n")
        self._out.flush()


def losses_in(log: str) -> list[float]:
    """The losses in a log of one JSON object per line; an unfinished line is left out."""
    losses = []
    for line in log.splitlines():
        with suppress(json.JSONDecodeError):
            losses.append(float(json.loads(line)["loss"]))
    return losses


def new_model(parts: Parts, settings: Settings) -> tuple[Chick, Any]:
    """A new model with its optimizer."""
    torch.manual_seed(settings.seed)
    model = Chick(settings.shape, parts, settings.segments).to(settings.device)
    betas = (0.9 if settings.momentum else 0.0, 0.95)
    options = {"lr": RATES[settings.size], "betas": betas, "weight_decay": 0.1}
    return model, parts.AdamW(model.parameters(), **options)


def first_rows(parts: Parts, settings: Settings, tokens: np.ndarray) -> list[prediction.Row]:
    """Predictions and measurements of one step of a model that is thrown away."""
    model, optimizer = new_model(parts, settings)
    batch = parts.get_batch(
        tokens,
        settings.batch,
        settings.shape.context_length,
        settings.device,
        torch.Generator().manual_seed(settings.seed),
    )
    return prediction.rows(parts, model, optimizer, batch, settings)


def fly(
    parts: Parts,
    settings: Settings,
    tokens: np.ndarray,
    machine: prediction.Machine,
    folder: Path,
    out: TextIO,
) -> Record:
    """Train to the end, or from where an earlier flight stopped, and return its record.

    `folder` gets the log and the checkpoint. Ctrl-C leaves both.
    """
    size = settings.shape
    rows = first_rows(parts, settings, tokens)
    dtype = torch.bfloat16 if settings.autocast else torch.float32
    flops = prediction.step_flops(parts, size, 0) if parts.has("flop_formulas") else None
    model, optimizer = new_model(parts, settings)
    log = folder / "log.jsonl"
    with Live(log, settings, flops, machine.peak_flops[dtype], out) as live:
        _train(parts, model, optimizer, tokens, settings, folder)
    predicted = prediction.seconds(parts, size, settings, machine)
    reason = "norms, softmax, GELU and Python take time that the formula leaves out"
    if predicted is None:
        reason = "your roofline and flop_formulas would predict it"
    rows.append(prediction.Row("seconds of a step", predicted, live.seconds, "s", reason))
    losses = losses_in(log.read_text(encoding="utf-8"))
    entropy = training_text.entropy(tokens)
    last = sum(losses[-10:]) / len(losses[-10:])
    reason = "the prediction knows only how often each byte occurs"
    rows.append(prediction.Row("last loss, mean of ten", entropy, last, "nats", reason))
    model.eval()
    sample = write(model, PROMPT, WRITTEN)
    return Record(
        settings.name,
        parts.own,
        losses,
        entropy,
        [asdict(row) for row in rows],
        sample,
    )


def _train(
    parts: Parts, model: Chick, optimizer: Any, tokens: np.ndarray, settings: Settings, folder: Path
) -> None:
    """Run the student's loop, or a given one."""
    warmup = settings.steps // 10 if settings.warmup else 0
    config: dict[str, Any] = {
        "steps": settings.steps,
        "batch_size": settings.batch,
        "context_length": settings.shape.context_length,
        "max_learning_rate": RATES[settings.size],
        "min_learning_rate": RATES[settings.size] / 10,
        "warmup_steps": warmup,
        "micro_batch_size": settings.micro_batch,
        "max_grad_norm": 1.0,
        "autocast_dtype": torch.bfloat16 if settings.autocast else None,
        "checkpoint_every": 20,
        "checkpoint_path": str(folder / "run.pt"),
        "log_path": str(folder / "log.jsonl"),
        "seed": settings.seed,
        "device": settings.device,
    }
    if not parts.has("training_loop"):
        given.train(model, optimizer, tokens, SimpleNamespace(**config), parts)
        return
    from assignment.training import TrainConfig

    parts.train(model, optimizer, tokens, TrainConfig(**config))


def where_it_broke(error: BaseException, root: Path) -> str:
    """The innermost line of the student's code in an error, as file:line, or ""."""
    found, traceback = "", error.__traceback__
    while traceback:
        file = Path(traceback.tb_frame.f_code.co_filename)
        if file.parent == root / "assignment":
            found = f"assignment/{file.name}:{traceback.tb_lineno}"
        traceback = traceback.tb_next
    return found
