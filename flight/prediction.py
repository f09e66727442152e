"""What the flight should take, by the student's formulas, and what it takes, measured."""

import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from math import log
from typing import Any

import torch
from torch import Tensor

from flight.model import Chick, Size
from flight.parts import Parts

BF16, FP32 = torch.bfloat16, torch.float32
PARAMETERS, FLOPS, FIRST = "parameters", "FLOPs of a step", "first loss, that of a guess"
STATES, KEPT = "bytes of weights, gradients and moments", "bytes kept for a backward pass"
SECONDS, AGAIN = "seconds of a step", "seconds, at the peak of the flight"
LAST = "last loss, mean of ten"
# Nats per byte. The xz program needs 1.06 for the source of Python's library.
SUSPICIOUS = 0.5
SLOWER = "norms, softmax, GELU and Python take time that the formula leaves out"
# Each line of the table: its unit, what predicts it, what measures it, and why both differ.
LINES = {
    PARAMETERS: ("", "napkin_math", "", "positions and norms are not in the formula"),
    FLOPS: ("FLOPs", "flop_formulas", "flop_counter", ""),
    STATES: ("bytes", "napkin_math", "optimizers", "as for the parameters"),
    KEPT: ("bytes", "", "activation_checkpointing", ""),
    FIRST: ("nats", "", "", "the initial logits are small, but not 0"),
    SECONDS: ("s", "roofline and flop_formulas", "", SLOWER),
    AGAIN: ("s", "roofline and flop_formulas", "", "the peak was measured between the steps"),
    LAST: ("nats", "", "", "the prediction knows only how often each byte occurs"),
}


@dataclass(frozen=True)
class Row:
    """A line of the table: what was predicted, what was measured, and why they differ."""

    what: str
    predicted: float | None  # None without the problem that predicts it
    measured: float | None  # None if it is not known (yet)
    unit: str  # of both
    reason: str = ""  # why they differ, or what is missing
    bet: float | None = None  # the student's own guess


def seconds_of(work: Callable[[], Any], device: str, budget: float = 0.5) -> float:
    """The shortest time that some work takes, tried for so many seconds."""
    best, end = float("inf"), time.perf_counter() + budget
    while time.perf_counter() < end:
        began = time.perf_counter()
        work()
        if device == "cuda":
            torch.cuda.synchronize()
        best = min(best, time.perf_counter() - began)
    return best


def peak_of(device: str, dtype: torch.dtype, budget: float = 0.5) -> float:
    """FLOP/s of a large product, measured without a random number."""
    a = torch.ones(1024, 1024, device=device, dtype=dtype)
    product = partial(torch.mm, a, a, out=torch.empty_like(a))
    return 2 * 1024**3 / seconds_of(product, device, budget)


@dataclass(frozen=True)
class Machine:
    """This machine as a roofline has it, measured in a second and a half.

    It has the fields of resource_accounting.Hardware.
    """

    peak_flops: dict[torch.dtype, float]
    memory_bandwidth: float
    name: str = "this machine"
    memory_bytes: int = 0

    @classmethod
    def measured(cls, device: str) -> "Machine":
        """Time products of two matrices, and a copy that fits in no cache."""
        peaks = {dtype: peak_of(device, dtype) for dtype in (FP32, BF16)}
        source = torch.ones(2**24, device=device)
        target = torch.empty_like(source)
        moved = 2 * source.numel() * source.element_size()
        return cls(peaks, moved / seconds_of(lambda: target.copy_(source), device))


def activation_bytes(size: Size, rows: int, *, autocast: bool, fused: bool, segments: int) -> int:
    """Bytes that a forward pass of `rows` sequences keeps for the backward pass, with its loss.

    They follow from handout §12.1: the residual stream and the norms are float32, the inputs and
    results of products have the products' dtype, and autocast casts the input of each product
    separately and keeps a copy of each matrix.
    """
    d, context, tokens = size.d_model, size.context_length, rows * size.context_length
    product = 2 if autocast else 4  # bytes of a number in a product
    norm = 4 * d + 8  # its input, and a mean and a deviation for each token
    scores, masks = 4 * size.num_heads, 0  # a fused kernel keeps one number per head and token
    if not fused:
        scores, masks = product * size.num_heads * context, context**2
    attention = product * ((3 if autocast else 1) * d + 3 * d + d) + scores
    layer = tokens * (2 * norm + attention + product * (d + 2 * size.d_ff)) + masks
    matrices = 2 * (4 * d * d + 2 * d * size.d_ff) if autocast else 0
    kept = segments * tokens * 4 * d if segments else size.num_layers * (layer + matrices)
    # Token ids, the last norm, the LM head's input, the log-softmax, and the targets; then the
    # positions, the LM head's copy, and the number of targets.
    ends = tokens * (8 + norm + product * d + 4 * size.vocab_size + 8) + 8 * context
    return kept + ends + (2 * size.vocab_size * d if autocast else 0) + 4


def _kept(parts: Parts, size: Size, rows: int, settings: Any) -> int:
    """The same with these parts and settings."""
    switches = {"autocast": settings.autocast, "segments": settings.segments}
    return activation_bytes(size, rows, fused=not parts.has("einops"), **switches)


def loss_of(model: Chick, x: Tensor, y: Tensor, *, autocast: bool) -> Tensor:
    """The loss of a batch."""
    with torch.autocast(x.device.type, BF16, enabled=autocast):
        return torch.nn.functional.cross_entropy(model(x).flatten(0, 1), y.flatten())


def predicted(parts: Parts, size: Size, settings: Any, machine: Machine) -> dict[str, float | None]:
    """What the flight should take, by line of the table; None without the problem's formula."""
    found: dict[str, float | None] = dict.fromkeys(LINES)
    if parts.has("napkin_math"):
        from assignment.resource_accounting import TrainingRecipe

        each = parts.bytes_per_parameter(TrainingRecipe(FP32, FP32, (FP32, FP32)))
        found[PARAMETERS] = parts.transformer_parameters(size)
        found[STATES] = each * parts.transformer_parameters(size)
    if parts.has("flop_formulas"):
        found[FLOPS] = step_flops(parts, size, settings.segments)
    found[KEPT] = _kept(parts, size, min(settings.micro_batch, settings.batch), settings)
    found[FIRST] = log(size.vocab_size)
    found[SECONDS] = seconds(parts, size, settings, machine)
    return found


def measured(
    parts: Parts, model: Chick, optimizer: Any, batch: tuple[Tensor, Tensor], settings: Any
) -> dict[str, float | None]:
    """Everything but time, measured in one real step, which changes the new model.

    Args:
        batch: Inputs and targets of one step, on the model's device.
        settings: A `flying.Settings`.
    """
    x, y = batch
    found: dict[str, float | None] = {PARAMETERS: sum(p.numel() for p in model.parameters())}
    if parts.has("activation_checkpointing"):
        # Copies, because a view would keep the whole batch.
        some_x, some_y = (part[: settings.micro_batch].clone() for part in (x, y))
        found[KEPT] = parts.saved_activation_bytes(
            lambda: loss_of(model, some_x, some_y, autocast=settings.autocast),
            exclude=model.parameters(),
        )
    found[FIRST], found[FLOPS] = _one_step(parts, model, optimizer, x, y, settings)
    if parts.has("optimizers"):
        weights = sum(p.numel() * p.element_size() for p in model.parameters())
        found[STATES] = 2 * weights + parts.optimizer_state_bytes(optimizer)
    return found


def table(parts: Parts, *columns: dict[str, float | None]) -> list[Row]:
    """The lines of the table from its columns: what was predicted, measured and bet."""
    rows = []
    for what, (unit, predicts, measures, reason) in LINES.items():
        expected, got, bet = (column.get(what) for column in columns)
        if what == AGAIN and expected is None:  # a short flight, or no formula
            continue
        if expected is None and predicts:
            reason = f"your {predicts} would predict it"
        elif got is None and measures:
            reason = f"your {measures} would measure it"
        elif what == LAST and got is not None and got < SUSPICIOUS:
            reason = (
                f"suspicious: such a text allows no loss below {SUSPICIOUS}. Does each target "
                "follow its input by one token, and does no position see a later one?"
            )
        elif what == FLOPS and not parts.has("einops"):
            reason = "the given attention is fused: its backward pass computes the scores again"
        rows.append(Row(what, expected, got, unit, reason, bet))
    return rows


def _one_step(
    parts: Parts, model: Chick, optimizer: Any, x: Tensor, y: Tensor, settings: Any
) -> tuple[float, int | None]:
    """The first loss, and the FLOPs of a step as counted; None without a counter."""
    counter = parts.FlopCounter() if parts.has("flop_counter") else None
    with counter or nullcontext():
        loss = loss_of(model, x, y, autocast=settings.autocast)
        loss.backward()  # type: ignore[no-untyped-call]
    parts.clip_gradient_norm(list(model.parameters()), 1.0)
    optimizer.step()
    return loss.item(), counter.total if counter else None


def step_flops(parts: Parts, size: Size, segments: int) -> float:
    """FLOPs of a step by the student's formulas; a checkpointed layer runs forward twice."""
    forward = parts.transformer_forward_flops(size, size.batch, size.context_length)
    layers = sum(forward.values()) - forward["lm_head"]
    return float(3 * sum(forward.values()) + layers * bool(segments))


def seconds(parts: Parts, size: Size, settings: Any, machine: Machine) -> float | None:
    """The shortest time of a step by the roofline of this machine; None without the formulas."""
    if not (parts.has("roofline") and parts.has("flop_formulas")):
        return None
    dtype = BF16 if settings.autocast else FP32
    parameters = 12 * size.num_layers * size.d_model**2
    # What the layers keep is written and read once; AdamW reads and writes 28 bytes per parameter.
    moved = 2 * _kept(parts, size, size.batch, settings) + 28 * parameters
    flops = step_flops(parts, size, settings.segments)
    return float(parts.roofline_seconds(flops, moved, machine, dtype))
