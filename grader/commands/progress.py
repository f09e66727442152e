"""The progress of a long command, on stderr."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from grader.base import interrupts

SECONDS_BETWEEN_LINES = 60.0


@contextmanager
def advancing(what: str) -> Iterator[Callable[[str, int, int], None]]:
    """Show progress on stderr: a bar on a terminal, otherwise at most one line per minute.

    Each step also re-raises an interrupt that other code has swallowed. A step with a total of 0
    is a wait, and its name says what for.
    """
    console = Console(stderr=True)
    if not console.is_terminal:
        yield _lines(what)
        return
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task(what, total=None)

        def advance(name: str, done: int, total: int) -> None:
            interrupts.stop_if_seen()
            shown = f"{what} {name}" if total else name
            bar.update(task, description=shown, completed=done, total=total or None)

        yield advance


def _lines(what: str) -> Callable[[str, int, int], None]:
    last, has_waited = time.monotonic(), False

    def advance(name: str, done: int, total: int) -> None:
        nonlocal last, has_waited
        interrupts.stop_if_seen()
        begins_to_wait = not total and not has_waited
        has_waited = not total
        if begins_to_wait or time.monotonic() - last > SECONDS_BETWEEN_LINES:
            last = time.monotonic()
            line = f"{what}: {done} of {total} done, now {name}" if total else f"grader: {name}"
            print(line, file=sys.stderr, flush=True)

    return advance
