"""What a batch shows while it works: a live table on a terminal, otherwise a line now and then."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from grader.classroom.batch import Progress, Show
from grader.printable import one_line

SECONDS_BETWEEN_LINES = 30.0


@contextmanager
def display() -> Iterator[Show]:
    """Show the progress of a batch on stderr."""
    console = Console(stderr=True, highlight=False)
    if not console.is_terminal:
        yield _lines()
        return
    with Live(console=console, transient=True, refresh_per_second=4) as live:
        yield lambda progress: live.update(_table(progress))


def _table(progress: Progress) -> Table:
    now = time.monotonic()
    table = Table.grid()
    table.add_row(Text(summary(progress, now)))
    table.add_row(ProgressBar(total=max(1, progress.total), completed=progress.done, width=60))
    for name, started in sorted(progress.running.items(), key=lambda item: item[1]):
        line = f"  {one_line(name, 60)}  {duration(now - started)}"
        table.add_row(Text(line, style="dim", overflow="ellipsis", no_wrap=True))
    return table


def summary(progress: Progress, now: float) -> str:
    """Done, failed, left, and the time to go, in one line."""
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

    def show(progress: Progress) -> None:
        nonlocal last
        now = time.monotonic()
        if now - last >= SECONDS_BETWEEN_LINES:
            last = now
            running = ", ".join(
                f"{name} ({duration(now - started)})" for name, started in progress.running.items()
            )
            print(f"{summary(progress, now)}; now {running}", file=sys.stderr, flush=True)

    return show


@contextmanager
def reading() -> Iterator[Callable[[str], None]]:
    """Show on a terminal which submission is being read."""
    console = Console(stderr=True, highlight=False)
    if not console.is_terminal:
        yield lambda name: None
        return
    with console.status("reading the submissions") as status:
        yield lambda name: status.update(Text(f"reading {one_line(name, 60)}"))


def duration(seconds: float) -> str:
    """A duration as a person says it: "12 s", "3 min 5 s", "2 h 10 min"."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"
