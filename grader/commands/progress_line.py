"""The progress of a long command, on stderr."""

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from rich.console import Console
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from grader.base import interrupts
from grader.report.shared_wording import duration

SECONDS_BETWEEN_LINES = 60.0
# Takes what is going on, in lines of which the first is the most important, and how many of how
# many steps are done; the number of all is 0 if it is not known.
Tell = Callable[[Sequence[str], int, int], None]


@contextmanager
def telling() -> Iterator[Tell]:
    """Show lines and a bar on a terminal, otherwise the lines as one, at most once a minute.

    What is printed on stderr meanwhile stands above.
    """
    console = Console(stderr=True, highlight=False)
    if not console.is_terminal:
        yield _lines()
        return
    with Live(console=console, transient=True, refresh_per_second=4) as live:

        def tell(lines: Sequence[str], done: int, total: int) -> None:
            bar = ProgressBar(total=total, completed=done, width=60) if total else ""
            more = [Text(f"  {x}", "dim", overflow="ellipsis", no_wrap=True) for x in lines[1:]]
            table = Table.grid()
            for row in (Text(lines[0]), bar, *more):
                table.add_row(row)
            live.update(table)

        yield tell


def _lines() -> Tell:
    last = time.monotonic()

    def tell(lines: Sequence[str], done: int, total: int) -> None:
        nonlocal last
        if time.monotonic() - last > SECONDS_BETWEEN_LINES:
            last = time.monotonic()
            print("; ".join(lines), file=sys.stderr, flush=True)

    return tell


@contextmanager
def advancing(what: str) -> Iterator[Callable[[str, int, int], None]]:
    """Show the progress of steps, each with its name, its number and the number of all.

    Each step also re-raises an interrupt that other code has swallowed. A step with a total of 0
    is a wait, whose name says what for; the first of several is told at once.
    """
    started, has_waited = time.monotonic(), False
    with telling() as tell:

        def advance(name: str, done: int, total: int) -> None:
            nonlocal has_waited
            interrupts.stop_if_seen()
            if not total and not has_waited:
                print(f"grader: {name}", file=sys.stderr, flush=True)
            elif not total:
                tell([f"grader: {name}"], 0, 0)
            else:
                took, now = duration(time.monotonic() - started), f", now {name}" if name else ""
                tell([f"{what}: {done} of {total} done in {took}{now}"], done, total)
            has_waited = not total

        yield advance
