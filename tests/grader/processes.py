"""The running processes of this machine, read from /proc, and a wait for conditions."""

import subprocess
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any


def ran(command: Iterable[object], **options: Any) -> "subprocess.CompletedProcess[str]":
    """Run a command to its end; return the completed process, with its outputs as text."""
    words = [*map(str, command)]
    return subprocess.run(words, capture_output=True, text=True, timeout=600, **options)


def statuses() -> Iterator[dict[str, str]]:
    """The status fields of each process, such as `Pid`, `PPid`, `Uid` and `State`."""
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            # A process may have any name, which need not be text.
            lines = (folder / "status").read_text(errors="replace").splitlines()
        except (FileNotFoundError, ProcessLookupError):
            continue  # the process has ended
        yield dict(line.split(":\t", 1) for line in lines if ":\t" in line)


def processes(field: str, value: int | str) -> list[int]:
    """The ids of all processes whose status field `field` starts with this number or letter."""
    return [int(status["Pid"]) for status in statuses() if status[field].split()[0] == str(value)]


def descendants(process: int) -> list[int]:
    """The ids of this process's children, their children, and so on."""
    parents, found = {int(s["Pid"]): int(s["PPid"]) for s in statuses()}, [process]
    for one in found:
        found += [child for child, parent in parents.items() if parent == one]
    return found[1:]


def alive(among: list[int]) -> list[int]:
    """The processes in this list that still run; zombies do not count."""
    running = {int(s["Pid"]) for s in statuses() if s["State"][0] not in "ZX"}
    return [process for process in among if process in running]


def started(command: Iterable[object], **given: Any) -> "subprocess.Popen[str]":
    """A process whose output can be read as text."""
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen([*map(str, command)], text=True, **pipes | given)


def until(holds: Callable[[], object]) -> None:
    """Wait until `holds()` is true, for at most ten minutes: the machine may be very busy."""
    deadline = time.monotonic() + 600
    while not holds():
        assert time.monotonic() < deadline, "the condition never became true"
        time.sleep(0.02)
