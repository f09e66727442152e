"""Show a batch's progress: a live table on a terminal, otherwise an occasional line."""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from grader.classroom.batches import BatchProgress, Running, Show
from kit.text import one_line

SECONDS_BETWEEN_LINES = 30.0
SHOWN = 20  # the most lines in a table, and the most names in a line


@contextmanager
def display() -> Iterator[Show]:
    console = Console(stderr=True, highlight=False)
    if not console.is_terminal:
        yield _lines()
        return
    with Live(console=console, transient=True, refresh_per_second=4) as live:

        def show(progress: BatchProgress) -> None:
            for note in _new_notes(progress):
                live.console.print(Text(note))
            live.update(_table(progress))

        yield show


def _new_notes(progress: BatchProgress) -> list[str]:
    notes, progress.notes = progress.notes, []
    return [f"grader: {one_line(note, 500)}" for note in notes]


def _table(progress: BatchProgress) -> Table:
    now = time.monotonic()
    table = Table.grid()
    table.add_row(Text(summary(progress, now)))
    table.add_row(ProgressBar(total=max(1, progress.total), completed=progress.done, width=60))
    lines = [f"{one_line(run.name, 60)}  {_since(run, now)}" for run in _longest_first(progress)]
    if len(lines) > SHOWN:
        lines[SHOWN:] = [f"and {len(lines) - SHOWN} more"]
    if progress.waits:
        lines.append(progress.waits)
    if progress.done_on:
        lines.append(f"graded on {_by_place(progress)}")
    for line in lines:
        table.add_row(Text(f"  {line}", style="dim", overflow="ellipsis", no_wrap=True))
    return table


def _longest_first(progress: BatchProgress) -> list[Running]:
    return sorted(progress.running.values(), key=lambda run: run.started)


def _since(run: Running, now: float) -> str:
    where = f" on {one_line(run.place, 40)}" if run.place else ""
    return f"{duration(now - run.started)}{where}"


def _by_place(progress: BatchProgress) -> str:
    """How many submissions each machine has graded, the largest number first."""
    most = [f"{one_line(name, 40)}: {n}" for name, n in progress.done_on.most_common(SHOWN)]
    others = len(progress.done_on) - SHOWN
    return ", ".join([*most, f"and {others} more machines"] if others > 0 else most)


def summary(progress: BatchProgress, now: float) -> str:
    """The submissions done, failed and left, and the remaining time, in one line."""
    left = progress.total - progress.done
    parts = [f"graded {progress.done} of {progress.total}"]
    if progress.faults:
        parts.append(f"{progress.faults} with a fault of the grader")
    parts.append(f"{left} left")
    to_go = progress.seconds_to_go(now)
    if left and to_go is not None:
        parts.append(f"about {duration(to_go)} to go")
    return ", ".join(parts)


def _lines() -> Show:
    last = time.monotonic()

    def show(progress: BatchProgress) -> None:
        nonlocal last
        for note in _new_notes(progress):
            print(note, file=sys.stderr, flush=True)
        now = time.monotonic()
        if now - last >= SECONDS_BETWEEN_LINES:
            last = now
            runs = [f"{one_line(r.name, 60)} ({_since(r, now)})" for r in _longest_first(progress)]
            more = f", and {len(runs) - SHOWN} more" if len(runs) > SHOWN else ""
            waits = f"; {progress.waits}" if progress.waits else ""
            line = f"{summary(progress, now)}; now {', '.join(runs[:SHOWN])}{more}{waits}"
            print(line, file=sys.stderr, flush=True)

    return show


def duration(seconds: float) -> str:
    """A duration in words: "12 s", "3 min 5 s", "2 h 10 min"."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"
