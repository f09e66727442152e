"""The running processes of this machine, read from /proc, and a wait for conditions."""

import os
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any


def ran(command: Iterable[object], **options: Any) -> "subprocess.CompletedProcess[str]":
    """Run a command to its end; return the completed process, with its outputs as text."""
    words = [*map(str, command)]
    return subprocess.run(words, capture_output=True, text=True, timeout=600, **options)


def status_of(process: int | str) -> dict[str, str]:
    """A process's status fields, such as `Pid`, `PPid`, `Uid` and `State`; none once it is gone."""
    try:
        # A process may have any name, which need not be text.
        with open(f"/proc/{process}/status", errors="replace") as file:
            return dict(x.split(":\t", 1) for x in file.read().splitlines() if ":\t" in x)
    except (FileNotFoundError, ProcessLookupError):
        return {}


def statuses() -> Iterator[dict[str, str]]:
    """The status fields of each process."""
    return filter(None, map(status_of, filter(str.isdigit, os.listdir("/proc"))))


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
    return [process for process in among if status_of(process).get("State", "X")[0] not in "ZX"]


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
