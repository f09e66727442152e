"""`python -m assignment race`: the lowest loss for a fixed budget of FLOPs. It earns no points.

An entry is a recipe of numbers, with the loss that its author measured, and no code. The program
counts the FLOPs and keeps the validation text out of the training, the same for all. So whoever
repeats a recipe gets its loss again, up to rounding, on any machine: `race --check FILE` does it.
"""

import argparse
import hashlib
import io
import json
import math
import sys
import tempfile
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import cross_entropy
from torch.utils.flop_counter import FlopCounterMode

from flight import given_parts, parts
from flight.flying import Live
from flight.model import Chick, Size
from flight.prediction import activation_bytes
from kit.handing_in import ENTRY
from kit.safe_text import counted, one_line, print_anywhere, ticking
from kit.student_command import read_course, submit

BUDGET = 10**13  # FLOPs, which take two cores some minutes
# Bytes of weights, gradients, moments and what is kept for a backward pass; at its peak, a step
# takes up to three times as much.
MEMORY = 2 * 10**9
FOLDER = "flights"
TEXT = ("kit", "tests/public")  # what every student of a course has, whatever the machine
HELD_OUT = 10  # one of so many files is for validation
TOLERANCE = 0.05  # nats by which machines may differ, as they add in another order
MOST_STEPS = 100_000  # of some milliseconds, however small they are
LONGEST = 40  # characters of an entry's name
# The numbers of a recipe: for each its default, its least value and its largest one.
NUMBERS: dict[str, tuple[int | float, float, float]] = {
    "layers": (4, 1, 24),
    "width": (128, 8, 1024),
    "heads": (4, 1, 64),
    "context": (128, 8, 1024),
    "batch": (4, 1, 256),
    "rate": (2e-3, 1e-6, 1.0),
    "warmup": (0.05, 0.0, 1.0),
    "decay": (0.1, 0.0, 10.0),
    "beta1": (0.9, 0.0, 0.9999),
    "beta2": (0.95, 0.0, 0.9999),
    "clip": (1.0, 1e-3, 1e3),
    "seed": (0, 0, 10**6),
}
Recipe = dict[str, int | float]
COUNTED = sdpa_kernel(SDPBackend.MATH)  # attention as products, because a fused one is not counted


def main(root: Path, arguments: list[str]) -> int:
    """Train by one recipe; return 0, 1 if a checked entry is not repeated, 2 for a wrong call."""
    print_anywhere()
    chosen = _parser().parse_args(arguments)
    try:
        if chosen.check:
            return check(root, chosen.check, BUDGET)
        recipe = {name: getattr(chosen, name) for name in NUMBERS}
        _keep(root, {"name": one_line(chosen.name, LONGEST), **fly(root, recipe, BUDGET)})
    except (submit.Refused, ValueError) as error:
        print(f"race: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("\nstopped; nothing is kept")
        return 130
    return 0


@COUNTED
def fly(
    root: Path, recipe: Recipe, budget: int, entry: dict[str, Any] | None = None
) -> dict[str, Any]:
    """Train by a recipe until the budget is spent, and measure the loss on the held-out files.

    If an `entry` differs already before the training, there is none, and no loss.

    Raises:
        ValueError: The recipe is wrong, one step takes more than the budget or than the memory,
            there are too many steps, or the loss overflows.
    """
    if why := wrong_in(recipe):
        raise ValueError(why)
    if (needed := memory(recipe)) > MEMORY:
        raise ValueError(
            f"expected a recipe that takes at most {MEMORY / 1e9:g} GB of memory; got one of "
            f"{needed / 1e9:.3g} GB: choose a smaller width, context or batch, or fewer layers or "
            "heads"
        )
    text, held_out, digest = course_text(root)
    with ticking("counting the FLOPs of a step ", sys.stdout):
        each = step_flops(recipe)
    steps = budget // each
    if not steps:
        raise ValueError(f"a step takes {each:.3g} FLOPs, more than the budget of {budget:.3g}")
    if steps > MOST_STEPS:
        raise ValueError(
            f"expected a recipe of at most {MOST_STEPS:,} steps; got {steps:,}: choose a larger "
            "batch, context or width, or more layers"
        )
    spent = {"steps": steps, "flops": steps * each, "budget": budget}
    said = {**spent, "text": digest, "recipe": recipe}
    if entry and differences(entry, said):
        return said
    print(
        f"{counted(steps, 'step')} of {each:.4g} FLOPs spend the budget of {budget:.3g}", flush=True
    )
    model = _trained(recipe, steps, text)
    found = round(validation_loss(model, held_out), 4)
    if not math.isfinite(found):
        raise ValueError("the loss is not finite at the end: nothing is kept")
    return {"loss": found, **said}


def _trained(recipe: Recipe, steps: int, text: np.ndarray) -> Chick:
    """A model after so many steps of the given loop."""
    torch.manual_seed(int(recipe["seed"]))
    model = Chick(_size(recipe), parts.load([]))
    optimizer = torch.optim.AdamW(
        model.parameters(),
        betas=(recipe["beta1"], recipe["beta2"]),
        weight_decay=recipe["decay"],
    )
    config = SimpleNamespace(
        steps=steps,
        batch_size=recipe["batch"],
        context_length=recipe["context"],
        device="cpu",
        max_learning_rate=recipe["rate"],
        min_learning_rate=recipe["rate"] / 10,
        warmup_steps=int(recipe["warmup"] * steps),
        max_grad_norm=recipe["clip"],
        seed=recipe["seed"],
        checkpoint_path=io.BytesIO(),
    )
    with tempfile.TemporaryDirectory() as folder:
        config.log_path = Path(folder, "log")
        with Live(config.log_path, steps, _size(recipe).tokens, sys.stdout):
            given_parts.train(model, optimizer, text, config, parts.load([]))
    return model


def check(root: Path, path: Path, budget: int) -> int:
    """Train by an entry's recipe; return 0 if this gives the numbers in the entry, 1 if not."""
    entry = read(path)
    again = fly(root, entry["recipe"], budget, entry)
    found = differences(entry, again)
    print("\n".join(found) or f"the entry is repeated: a loss of {again['loss']}")
    return int(bool(found))


def differences(entry: dict[str, Any], again: dict[str, Any]) -> list[str]:
    """What an entry says, and its repetition does not."""
    wrong = [key for key in ("text", "steps", "flops", "budget") if entry[key] != again[key]]
    # NaN is near to nothing, and before the training there is no loss.
    if not abs(entry["loss"] - again.get("loss", entry["loss"])) <= TOLERANCE:
        wrong.append("loss")
    gives = {"loss": "a number", **again}
    return [f"{key}: the entry says {entry[key]}, its recipe gives {gives[key]}" for key in wrong]


def read(path: Path) -> dict[str, Any]:
    """An entry from a file.

    Raises:
        ValueError: It is none.
    """
    if not path.is_file():
        raise ValueError(f"there is no file {path}")
    with suppress(OSError, ValueError, RecursionError):
        if _is_entry(entry := json.loads(path.read_bytes()[:10_000])):
            return dict(entry)
    raise ValueError(f"{path} is no entry: expected what `race` writes to assignment/{ENTRY}")


def _is_entry(one: Any) -> bool:
    kinds = {"name": str, "loss": float, "text": str, "recipe": dict}
    kinds |= dict.fromkeys(("steps", "flops", "budget"), int)
    return isinstance(one, dict) and {key: type(value) for key, value in one.items()} == kinds


def wrong_in(recipe: Recipe) -> str:
    """What is wrong with a recipe, or ""."""
    if recipe.keys() != NUMBERS.keys():
        got = one_line(str(list(recipe)), 200)
        return f"a recipe has the numbers {', '.join(NUMBERS)}; got {got}"
    for name, (usual, least, most) in NUMBERS.items():
        value = recipe[name]
        kinds = (int,) if isinstance(usual, int) else (int, float)
        if type(value) not in kinds or not least <= value <= most:
            kind = "a whole number" if isinstance(usual, int) else "a number"
            got = one_line(str(value), 40)
            return f"{name}: expected {kind} from {least:g} to {most:g}; got {got}"
    if recipe["width"] % recipe["heads"]:
        return f"heads: {recipe['heads']} does not divide the width {recipe['width']}"
    return ""


def course_text(root: Path) -> tuple[np.ndarray, np.ndarray, str]:
    """The text to train on, that for validation, and the first digits of a hash of both.

    A test of the student's own is no part of it.
    """
    public = {f"test_{problem['id']}.py" for problem in read_course(root)["problem"]}
    files = [path for folder in TEXT for path in sorted((root / folder).rglob("*.py"))]
    files = [path for path in files if path.parent.name != "public" or path.name in public]
    texts = [path.read_bytes().replace(b"\r\n", b"\n") for path in files]
    digest = hashlib.sha256(b"\0".join(texts)).hexdigest()[:12]
    held_out = np.frombuffer(b"\n".join(texts[HELD_OUT - 1 :: HELD_OUT]), dtype=np.uint8)
    del texts[HELD_OUT - 1 :: HELD_OUT]
    return np.frombuffer(b"\n".join(texts), dtype=np.uint8), held_out, digest


@COUNTED
def step_flops(recipe: Recipe) -> int:
    """The FLOPs of a step, as torch counts those of tensors without memory."""
    size = _size(recipe)
    with torch.device("meta"), FlopCounterMode(display=False) as counter:
        model = Chick(size, parts.load([]))
        tokens = torch.zeros(size.batch, size.context_length, dtype=torch.long)
        cross_entropy(model(tokens).flatten(0, 1), tokens.flatten()).backward()  # type: ignore[no-untyped-call]
    return int(counter.get_total_flops())


def memory(recipe: Recipe) -> int:
    """The bytes that a step keeps: 16 of each parameter, and those for the backward pass."""
    size = _size(recipe)
    parameters = 12 * size.num_layers * size.d_model**2
    kept = activation_bytes(size, size.batch, autocast=False, fused=False, segments=0)
    return 16 * parameters + kept


@torch.no_grad()
def validation_loss(model: Chick, held_out: np.ndarray) -> float:
    """The mean loss per byte of the held-out text, in windows of the model's context."""
    context = model.size.context_length
    count = (len(held_out) - 1) // context
    tokens = torch.as_tensor(held_out[: count * context + 1].astype(np.int64))
    inputs, targets = tokens[:-1].view(count, context), tokens[1:].view(count, context)
    total = 0.0
    windows = max(1, 1024 // context)  # at a time, which bounds the memory for their scores
    for at in range(0, count, windows):
        logits = model(inputs[at : at + windows]).flatten(0, 1)
        right = targets[at : at + windows].flatten()
        total += cross_entropy(logits, right, reduction="sum").item()
    return total / targets.numel()


def _size(recipe: Recipe) -> Size:
    names = ("layers", "width", "heads", "context", "batch")
    layers, width, heads, context, batch = (int(recipe[name]) for name in names)
    return Size(layers, width, heads, context, batch, steps=0)


def _keep(root: Path, entry: dict[str, Any]) -> None:
    """Show the table of this folder's entries; the best one of this text is handed in."""
    kept = root / FOLDER / "race.json"
    entries: list[dict[str, Any]] = []
    kept.parent.mkdir(exist_ok=True)
    with suppress(OSError, ValueError, RecursionError, TypeError):
        found = json.loads(kept.read_text(encoding="utf-8"))
        entries = [one for one in found if _is_entry(one) and not wrong_in(one["recipe"])]
    entries.append(entry)
    entries.sort(key=lambda one: (one["text"] != entry["text"], one["loss"]))
    submit.write(kept, json.dumps(entries, indent=1).encode())
    submit.write(root / "assignment" / ENTRY, json.dumps(entries[0], indent=1).encode())
    for one in entries[:10]:
        mark = " of another text" if one["text"] != entry["text"] else ""
        changed = [f"--{k} {v:g}" for k, v in one["recipe"].items() if v != NUMBERS[k][0]]
        print(f"{one['loss']:8.4f}{mark}  {one['name']}  {' '.join(changed)}")
    print(f"assignment/{ENTRY} has the first line: `python -m assignment submit` carries it")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m assignment race",
        description=f"Reach the lowest loss with {BUDGET:.0e} FLOPs, by a recipe for a model of "
        "given parts. Nothing here earns points.",
    )
    named = "what the class's table calls the entry"
    parser.add_argument("--name", default="anonymous", help=named)
    parser.add_argument("--check", type=Path, metavar="FILE", help="repeat an entry and compare")
    for name, (usual, least, most) in NUMBERS.items():
        kind, span = type(usual), f"{least:g} to {most:g}; default: {usual:g}"
        parser.add_argument(f"--{name}", type=kind, default=usual, metavar="N", help=span)
    return parser
