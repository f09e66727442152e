"""The processes of this machine, as /proc shows them, and waiting for what they do."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path


def statuses() -> Iterator[dict[str, str]]:
    """The status of each process that runs: its fields, such as `Pid`, `PPid`, `Uid`, `State`."""
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            lines = (folder / "status").read_text().splitlines()
        except (FileNotFoundError, ProcessLookupError):
            continue  # it has ended meanwhile
        yield dict(line.split(":\t", 1) for line in lines if ":\t" in line)


def processes(field: str, value: int) -> list[int]:
    """The processes whose status field `field` starts with this number."""
    return [int(status["Pid"]) for status in statuses() if status[field].split()[0] == str(value)]


def descendants(process: int) -> list[int]:
    """The processes that this one has started, and those that they have started."""
    return [p for child in processes("PPid", process) for p in [child, *descendants(child)]]


def alive(among: list[int]) -> list[int]:
    """Those of these processes that run; one that has ended may still wait to be collected."""
    running = {int(s["Pid"]) for s in statuses() if s["State"][0] not in "ZX"}
    return [process for process in among if process in running]


def until(holds: Callable[[], object]) -> None:
    """Wait until something holds, for a minute at most."""
    deadline = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < deadline, "it never holds"
        time.sleep(0.02)
