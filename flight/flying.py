"""One flight: settings, a live line while the loop runs, and the record that it leaves."""

import json
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, TextIO

import numpy as np
import torch

from flight import given_parts, prediction, training_text
from flight.model import SIZES, Chick, Size, write
from flight.parts import Parts
from kit.safe_text import counted, printable, ticking

LOOK_SECONDS = 0.1
SEED = 0  # of weights and batches
WARM_UP = 3  # steps that the time of a step leaves out
PROMPT = "def "
CHECKPOINT = "run.pt"
WRITTEN = 160  # bytes of a sample
SAMPLED = (10, 100)  # steps after which it writes, as after the last
LAST = 10  # steps that make up a last loss
PEAKS = 8  # times that the peak is measured again during a flight
RATES = {"hatchling": 2e-3, "chick": 1e-3, "egg": 2e-3, "wren": 2e-4}


@dataclass(frozen=True)
class Settings:
    """The switches of a flight."""

    size: str  # a name of `SIZES`
    steps: int
    batch: int  # sequences of a step
    micro_batch: int  # sequences that go through the model at a time
    segments: int = 0  # of layers that are checkpointed; 0 for none
    autocast: bool = False  # whether products run in bfloat16
    momentum: bool = True  # whether AdamW averages gradients over steps
    warmup: bool = True  # whether the learning rate rises from 0 at the start
    device: str = "cpu"  # or "cuda"

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
        return ", ".join(words)


@dataclass
class Record:
    """What a flight leaves for the page: settings, curve and table."""

    name: str
    own: list[str]
    losses: list[float]
    entropy: float
    rows: list[dict[str, Any]]
    samples: dict[str, str]
    failing: list[str] = field(default_factory=list)  # own parts whose public tests fail
    device: str = "cpu"


def last_loss(losses: list[float]) -> float:
    """The mean loss of the last ten steps."""
    return sum(losses[-LAST:]) / len(losses[-LAST:])


class Log:
    """A log of one JSON object per line, read as it grows."""

    def __init__(self, path: Path) -> None:
        self._path, self._read = path, 0
        self.steps = 0  # how many it has
        self.losses: list[float] = []  # of the last steps

    def look(self) -> bool:
        """Read the lines that are new; return whether there are some."""
        try:
            with self._path.open("rb") as log:
                if log.seek(0, 2) < self._read:  # the loop has cut it back to its checkpoint
                    self._read, self.steps, self.losses = 0, 0, []
                log.seek(self._read)
                new, newline, _ = log.read().rpartition(b"\n")
        except OSError:
            return False
        self._read += len(new) + len(newline)
        losses = losses_in(new.decode(errors="replace"))
        self.steps += len(losses)
        self.losses = [*self.losses, *losses][-LAST:]
        return bool(newline)


class Between:
    """What happens between two steps: the peak is measured again, and the model writes.

    It is called before each forward pass of the loop. Its time is no time of a step.
    """

    def __init__(self, settings: Settings, folder: Path, out: TextIO) -> None:
        self._settings, self._log, self._out = settings, Log(folder / "log.jsonl"), out
        self._kept = folder / "samples.json"
        self._seen: set[int] = set()
        self.samples: dict[str, str] = {}
        with suppress(OSError, ValueError):  # of a flight that was stopped
            self.samples = dict(json.loads(self._kept.read_text(encoding="utf-8")))
        self.peaks: list[float] = []
        self.paused: list[tuple[float, float]] = []  # when, and for how long
        self.busy = False

    def __call__(self, model: Chick, _: object) -> None:
        """Do what is due after the steps that the log has."""
        self._log.look()
        step = self._log.steps
        if step in self._seen:  # another micro-batch, or this call's own sample
            return
        self._seen.add(step)
        measures = step and step % max(1, self._settings.steps // PEAKS) == 0
        writes = step in SAMPLED and step < self._settings.steps
        if not (measures or writes):
            return
        began, self.busy = time.monotonic(), True
        if measures:
            dtype = torch.bfloat16 if self._settings.autocast else torch.float32
            self.peaks.append(prediction.peak_of(self._settings.device, dtype, budget=0.15))
        if writes:
            self.write(model, step)
        self.paused.append((began, time.monotonic() - began))
        self.busy = False

    def write(self, model: Chick, step: int) -> None:
        """Let the model write byte by byte, and keep the text."""
        name = f"after {counted(step, 'step')}"
        title = f"{name} it writes:"
        self._out.write((f"\r{title:<78}" if self._out.isatty() else f"\n{title}") + "\n  ")
        pieces, column = [], 0
        for piece in write(model, PROMPT, WRITTEN):
            pieces.append(piece)
            shown = printable(" ".join(piece.split("\n")), 1000)
            self._out.write(f"\n  {shown}" if column > 70 else shown)
            self._out.flush()
            column = len(shown) + (0 if column > 70 else column)
        self._out.write("\n")
        self.samples[name] = "".join(pieces)
        self._kept.write_text(json.dumps(self.samples), encoding="utf-8")


class Live:
    """Follows the loop's log from another thread, and says how the flight goes."""

    def __init__(
        self,
        log: Path,
        steps: int,
        tokens: int,
        out: TextIO,
        *,
        mfu: Callable[[float], str] = lambda seconds: "",
        between: Between | None = None,
    ):
        self._log, self._out = Log(log), out
        self._of, self._tokens, self._mfu, self._between = steps, tokens, mfu, between
        self._began = self._wrote = time.monotonic()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._follow, daemon=True)
        self._said = 0
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
        if not later or later[0][0] == later[-1][0]:
            return None
        (first, begin), (last, end) = later[0], later[-1]
        paused = self._between.paused if self._between else []
        between = sum(max(0.0, min(end, at + took) - max(begin, at)) for at, took in paused)
        return (end - begin - between) / (last - first)

    def _follow(self) -> None:
        while not self._stop.wait(LOOK_SECONDS):
            self._look()
            if time.monotonic() - self._wrote > 1.0:
                self._say()
        self._look()

    def _look(self) -> None:
        before = self._log.steps
        if self._log.look():
            self.times = [] if self._log.steps < before else self.times
            self.times.append((self._log.steps, time.monotonic()))
            if self.seconds:
                self._say()

    def _say(self) -> None:
        steps, seconds, now = self._log.steps, self.seconds, time.monotonic()
        if self._between and self._between.busy:
            return
        line = f"step {steps}/{self._of}  "
        if seconds:
            left = round((self._of - steps) * seconds)
            loss = last_loss(self._log.losses)
            line += f"loss {loss:.3f}  {self._tokens / seconds:,.0f} tokens/s  "
            line += f"{self._mfu(seconds)}{left // 60}:{left % 60:02} left  "
        if self._out.isatty():
            self._out.write(f"\r{f'{line}({now - self._began:.0f} s)':<78}")
        elif steps // max(1, self._of // 10) > self._said:
            self._said = steps // max(1, self._of // 10)
            self._out.write(line.rstrip() + "\n")
        elif now - self._wrote > 1.0:
            self._out.write(".")
        else:
            return
        self._wrote = now
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
    torch.manual_seed(SEED)
    model = Chick(settings.shape, parts, settings.segments).to(settings.device)
    betas = (0.9 if settings.momentum else 0.0, 0.95)
    options = {"lr": RATES[settings.size], "betas": betas, "weight_decay": 0.1}
    return model, parts.AdamW(model.parameters(), **options)


def first_step(parts: Parts, settings: Settings, tokens: np.ndarray) -> dict[str, float | None]:
    """Measurements of one step of a model that is thrown away."""
    model, optimizer = new_model(parts, settings)
    generator, context = torch.Generator().manual_seed(SEED), settings.shape.context_length
    batch = parts.get_batch(tokens, settings.batch, context, settings.device, generator)
    return prediction.measured(parts, model, optimizer, batch, settings)


def fly(
    parts: Parts,
    settings: Settings,
    tokens: np.ndarray,
    machine: prediction.Machine,
    folder: Path,
    out: TextIO,
    bets: dict[str, float | None] | None = None,
) -> Record:
    """Train to the end, or from where an earlier flight stopped, and return its record.

    `folder` gets the log, the samples and the checkpoint. Ctrl-C leaves them. Only the student's
    loop goes on.
    """
    size = settings.shape
    expected = prediction.predicted(parts, size, settings, machine)
    with ticking("measuring one step of a model that is thrown away ", out):
        got = first_step(parts, settings, tokens)
    dtype = torch.bfloat16 if settings.autocast else torch.float32
    flops = prediction.step_flops(parts, size, 0) if parts.has("flop_formulas") else None
    model, optimizer = new_model(parts, settings)
    log = folder / "log.jsonl"
    between = Between(settings, folder, out)
    hook = model.register_forward_pre_hook(between)

    def mfu(seconds: float) -> str:
        return f"MFU {flops / seconds / machine.peak_flops[dtype]:.0%}  " if flops else ""

    with Live(log, settings.steps, size.tokens, out, mfu=mfu, between=between) as live:
        _train(parts, model, optimizer, tokens, settings, folder)
    hook.remove()
    if between.peaks:
        peak = sum(between.peaks) / len(between.peaks)
        machine = replace(machine, peak_flops={**machine.peak_flops, dtype: peak})
        expected[prediction.AGAIN] = prediction.seconds(parts, size, settings, machine)
    got[prediction.SECONDS] = got[prediction.AGAIN] = live.seconds
    losses = losses_in(log.read_text(encoding="utf-8"))
    expected[prediction.LAST] = entropy = training_text.entropy(tokens)
    got[prediction.LAST] = last_loss(losses)
    model.eval()
    between.write(model, len(losses))
    rows = [asdict(row) for row in prediction.table(parts, expected, got, bets or {})]
    flew = (settings.name, parts.own, losses, entropy, rows, between.samples)
    return Record(*flew, parts.failing, settings.device)


def _train(
    parts: Parts, model: Chick, optimizer: Any, tokens: np.ndarray, settings: Settings, folder: Path
) -> None:
    """Run the student's loop, or a given one."""
    warmup = settings.steps // 10 if settings.warmup else 0
    # The given loop cannot go on, and the student's loop could not from what it leaves.
    left = CHECKPOINT if parts.has("training_loop") else "weights.pt"
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
        "checkpoint_every": max(20, settings.steps // 50),
        "checkpoint_path": str(folder / left),
        "log_path": str(folder / "log.jsonl"),
        "seed": SEED,
        "device": settings.device,
    }
    if not parts.has("training_loop"):
        given_parts.train(model, optimizer, tokens, SimpleNamespace(**config), parts)
        return
    from assignment.training import TrainConfig

    parts.train(model, optimizer, tokens, TrainConfig(**config))
