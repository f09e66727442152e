"""`python -m assignment fly`: the command line, and everything that it prints."""

import argparse
import json
import sys
import textwrap
from contextlib import suppress
from dataclasses import asdict, fields
from pathlib import Path
from traceback import extract_tb
from typing import Any

import numpy as np
import torch

from flight import flight_page, flying, parts, training_text
from flight.bets import IN_A_TERMINAL, can_ask, number_in
from flight.model import SIZES
from flight.prediction import LINES, SECONDS, Machine, Row, predicted, table
from kit.safe_text import message_of, print_anywhere, printable, ticking
from kit.student_command import check, previous_check, read_course, submit

FOLDER = "flights"


def main(root: Path, arguments: list[str]) -> int:
    """Predict, fly, compare; return the exit code: 0, 1 if a part broke, 130 after Ctrl-C."""
    print_anywhere()
    chosen = _parser().parse_args(arguments)
    try:
        return _main(root, chosen)
    except submit.Refused as error:
        print(f"fly: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("\nstopped", file=sys.stderr)
        return 130


def _main(root: Path, chosen: argparse.Namespace) -> int:
    settings = _settings(chosen)
    folder = root / FOLDER / settings.name.replace(", ", "-").replace(" ", "_")
    if not chosen.again and (record := _finished(folder)):
        print(f"{record.name} is finished. With --again, it flies anew with your parts of today.\n")
        _say_record(record)
        _say_cards(root, folder)
        return 0
    own, failing = _own(root, chosen.mine)
    _check_parts(settings, own)
    used = parts.load(own, failing)
    tokens = used.open_tokens(_text(root / FOLDER), dtype=np.uint8)
    _say_parts(own, failing)
    with ticking("measuring this machine ", sys.stdout):
        machine = Machine.measured(settings.device)
    fp32, bf16 = (machine.peak_flops[dtype] / 1e9 for dtype in (torch.float32, torch.bfloat16))
    bandwidth = f"{machine.memory_bandwidth / 1e9:.1f} GB/s"
    print(f"  {fp32:,.0f} GFLOP/s in float32, {bf16:,.0f} in bfloat16, {bandwidth}")
    if chosen.again and folder.is_dir():
        for old in folder.iterdir():
            old.unlink()
    folder.mkdir(parents=True, exist_ok=True)
    expected = predicted(used, settings.shape, settings, machine)
    rows = [row for row in table(used, expected, {}, {}) if row.predicted is not None]
    print("\npredicted, before anything runs")
    for row in rows:
        print(f"  {row.what:40}{flight_page.number(row.predicted, row.unit):>14}")
    if seconds := expected[SECONDS]:
        least = f"{settings.steps * seconds / 60:.1f}"
        print(f"  at this peak, the formula gives {least} minutes for the flight; small products")
        print("  and Python come on top, and the flight counts down what is left")
    measured = [row for row in rows if LINES[row.what][2] in ("", *own)]
    bets = _bets(folder / "bets.json", measured)
    return _fly(root, used, settings, tokens, machine, folder, bets)


def _bets(kept: Path, rows: list[Row]) -> dict[str, float | None]:
    """The student's bets, or those that the flight began with; none without a terminal."""
    with suppress(OSError, ValueError, TypeError):
        return dict(json.loads(kept.read_text(encoding="utf-8")))
    if not can_ask():
        print(f"\nno bets: {IN_A_TERMINAL}")
        return {}
    print("\nyour bets, in the same units; Enter keeps the formula's, and Ctrl-C stops")
    bets: dict[str, float | None] = {}
    with suppress(EOFError):
        for row in rows:
            bets[row.what] = _bet(row)
    submit.write(kept, json.dumps(bets).encode())
    return bets


def _bet(row: Row) -> float | None:
    unit = "MB" if row.unit == "bytes" else row.unit
    while said := input(f"  {row.what} [{flight_page.number(row.predicted, row.unit)}]: ").strip():
        number = number_in(said.removesuffix(unit))
        if isinstance(number, float) and number > 0:
            number *= 1e6 if row.unit == "bytes" else 1
            print(f"    {flight_page.number(number, row.unit)}")
            return number
        print(f"    {number if isinstance(number, str) else 'a number above 0'}")
    return row.predicted


def _fly(
    root: Path,
    used: parts.Parts,
    settings: flying.Settings,
    tokens: np.ndarray,
    machine: Machine,
    folder: Path,
    bets: dict[str, float | None],
) -> int:
    goes_on = used.has("training_loop")
    then = "goes on from the last checkpoint" if goes_on else "starts over, as the loop is given"
    print(f"flying {settings.name}\nCtrl-C stops, and the same command {then}", flush=True)
    try:
        record = flying.fly(used, settings, tokens, machine, folder, sys.stdout, bets)
    except KeyboardInterrupt:
        is_kept = goes_on and (folder / flying.CHECKPOINT).exists()
        kept = "the checkpoint is kept: the same command goes on"
        nothing = "there is no checkpoint: the same command starts over"
        print(f"\nstopped; {kept if is_kept else nothing}")
        return 130
    except Exception as error:
        frames = [(Path(one.filename), one.lineno) for one in extract_tb(error.__traceback__)]
        own = [place for place in frames if place[0].parent == root / "assignment"]
        if not own:
            raise
        file, line = own[-1]
        names = [name for name, (of, _) in parts.OF_PROBLEM.items() if of == file.stem]
        text = printable(message_of(str(error)), 400)
        where = f"assignment/{file.name}:{line}"
        print(f"\n{where} raised {type(error).__name__}: {text}", file=sys.stderr)
        print(f"look with `python -m assignment check {' '.join(names)}`", file=sys.stderr)
        return 1
    submit.write(folder / "record.json", json.dumps(asdict(record)).encode())
    _say_record(record)
    submit.write(folder / "card.svg", flight_page.card(record).encode())
    cards = sorted(folder.parent.glob("*/card.svg"))
    names = [card.relative_to(folder.parent).as_posix() for card in cards]
    submit.write(folder.parent / "index.html", flight_page.render(names).encode())
    _say_cards(root, folder)
    return 0


def _finished(folder: Path) -> flying.Record | None:
    """The record of a flight that has reached its end."""
    with suppress(OSError, ValueError, TypeError):
        kept = (folder / "record.json").read_text(encoding="utf-8")
        return flying.Record(**json.loads(kept))
    return None


def _say_cards(root: Path, folder: Path) -> None:
    print(f"a card to show: {(folder / 'card.svg').relative_to(root)}")
    print(f"all cards: {(folder.parent / 'index.html').relative_to(root)}")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m assignment fly",
        description="Train a small language model made of your own modules on the source of "
        "Python's standard library: first a prediction, then the flight, then a comparison.",
    )
    add = parser.add_argument
    sizes = (
        "hatchling: 1 million parameters, 5,000 small steps until it writes words (the default); "
        "egg: the same, 300 steps; chick: 10 million; wren: the handout's model, for a GPU of 80 GB"
    )
    add("--size", choices=list(SIZES), default="hatchling", help=sizes)
    add("--steps", type=int, help="default: that of the size")
    add("--batch", type=int, help="sequences of a step")
    add("--micro-batch", type=int, help="sequences at a time; default: the batch")
    segments = "checkpoint the layers in so many segments"
    add("--checkpointing", dest="segments", type=int, metavar="SEGMENTS", default=0, help=segments)
    add("--autocast", action="store_true", help="compute products in bfloat16")
    add("--no-momentum", dest="momentum", action="store_false", help="AdamW with a β₁ of 0")
    add("--no-warmup", dest="warmup", action="store_false", help="start at the highest rate")
    mine = "use your part of PROBLEM even if its public tests fail; may be repeated"
    problems = list(parts.OF_PROBLEM)
    add("--mine", metavar="PROBLEM", action="append", default=[], choices=problems, help=mine)
    add("--again", action="store_true", help="start over instead of going on")
    return parser


def _settings(chosen: argparse.Namespace) -> flying.Settings:
    """The settings, unless something is wrong with them."""
    usual, known = SIZES[chosen.size], {field.name for field in fields(flying.Settings)}
    said = {name: got for name, got in vars(chosen).items() if name in known and got is not None}
    for name in ("steps", "batch", "micro_batch"):
        option = f"--{name.replace('_', '-')}"
        if said.get(name, 1) < 1:
            raise submit.Refused(f"{option}: expected at least 1; got {said[name]}")
    batch = said.get("batch", usual.batch)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    others = {"steps": usual.steps, "batch": batch, "micro_batch": batch, "device": device}
    settings = flying.Settings(**(others | said))
    if settings.size == "wren" and settings.device != "cuda":
        raise submit.Refused("--size wren needs a GPU of 80 GB")
    if not 0 <= settings.segments <= usual.num_layers:
        most = f"{usual.num_layers}, the number of layers"
        raise submit.Refused(f"--checkpointing is between 0 and {most}")
    if (given := settings.micro_batch) > batch:
        raise submit.Refused(f"--micro-batch {given} is more than the batch of {batch}")
    return settings


def _own(root: Path, mine: list[str]) -> tuple[list[str], list[str]]:
    """The problems whose parts are the student's, and those of them whose public tests fail."""
    course: dict[str, Any] = read_course(root)
    problems = [p for p in course["problem"] if p["id"] in parts.OF_PROBLEM]
    files = previous_check.Files.now(root, {p["module"] for p in course["problem"]})
    known = previous_check.read(root)
    unknown = [p for p in problems if not known.has(p, files)]
    if unknown:
        print("your parts are used where the public tests pass; running those tests first\n")
        if (code := check.main(root, unknown, course, check.Options(advise=False))) not in (0, 1):
            raise SystemExit(code)
        print()
        known = previous_check.read(root)
    done = {p["id"] for p in problems if known.status(p, files) == "done"}
    own = [name for name in parts.OF_PROBLEM if name in done or name in mine]
    return own, [name for name in own if name not in done]


def _check_parts(settings: flying.Settings, own: list[str]) -> None:
    """Refuse a switch that needs a problem that is not done."""
    if settings.segments and "activation_checkpointing" not in own:
        raise submit.Refused("--checkpointing needs your activation_checkpointing")
    of_loop = settings.autocast or settings.micro_batch < settings.batch
    if of_loop and "training_loop" not in own:
        raise submit.Refused("--autocast and --micro-batch need your training_loop")


def _text(folder: Path) -> Path:
    """The file of tokens, one byte each, which is made on the spot."""
    folder.mkdir(exist_ok=True)
    path = folder / "text.bin"
    if not path.exists():
        submit.write(path, training_text.make())
    return path


def _say_parts(own: list[str], failing: list[str]) -> None:
    others = [name for name in parts.OF_PROBLEM if name not in own]
    given = [name for name in others if name not in parts.LEFT_OUT]
    missing = [name for name in others if name in parts.LEFT_OUT]
    yours = flight_page.marked(own, failing)
    for title, names in (("yours", yours), ("given", given), ("left out", missing)):
        if names:
            print(textwrap.fill(f"{title}: {', '.join(names)}", 78, subsequent_indent="  "))


def _say_record(record: flying.Record) -> None:
    _say_parts(record.own, record.failing)
    cells = flight_page.lines(record)
    for name, *numbers in cells:
        print(f"{name:40}" + "".join(f"{number:>14}" for number in numbers))
    if closer := flight_page.closer(record):
        print(f"\nyour {closer}")
    print("\nwhy they differ")
    for row in record.rows:
        exact = row["predicted"] is not None and row["predicted"] == row["measured"]
        if row["reason"] and not exact:
            text = f"  {row['what']}: {row['reason']}"
            print(textwrap.fill(text, 78, subsequent_indent="    "))
    print(f"\nloss\n{flight_page.in_text(record.losses)}\n\n{flight_page.beside(record.samples)}\n")
