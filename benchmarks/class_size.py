"""How time and memory of `grader batch` grow with the class: 1, 10, 100 and 400 submissions.

    python benchmarks/class_size.py [--sizes N ...] [--only PROBLEM ...] [--json FILE]

Each submission is the reference with a different comment, so that the grader does not reuse a
result. For each size the benchmark prints the submissions per minute, the CPU seconds per
submission, and the total memory of all processes: the medians over the second and over the last
fifth of the run.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import single

from grader.course import courses

SECONDS_BETWEEN_LOOKS = 0.5


def main() -> None:
    """Measure, print the results, and write them to a file."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", type=int, nargs="+", default=[1, 10, 100, 400])
    parser.add_argument("--only", nargs="+", default=[], help="problems (default: all)")
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    options = parser.parse_args()
    figures: dict[str, Any] = {
        "environment": single.environment(),
        "problems": options.only or "all",
    }
    for size in options.sizes:
        figures[f"{size} submissions"] = measured(size, options.only)
        print(f"{size:>5} submissions", figures[f"{size} submissions"], flush=True)
    if options.json:
        options.json.write_text(json.dumps(figures, indent=2) + "\n")


def measured(size: int, only: list[str]) -> dict[str, float]:
    """Grade a class of this size with the real command."""
    with tempfile.TemporaryDirectory() as folder:
        hand_in(Path(folder, "class"), size)
        command = [sys.executable, "-m", "grader", "batch", f"{folder}/class"]
        command += ["--gradebook", f"{folder}/class.sqlite"]
        command += [word for problem in only for word in ("--only", problem)]
        started = time.monotonic()
        process = subprocess.Popen(
            command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
        )
        looks: list[float] = []
        watcher = threading.Thread(target=watch, args=(process.pid, looks), daemon=True)
        watcher.start()
        _, said = process.communicate()
        wall = time.monotonic() - started
        watcher.join()
        if process.returncode:
            raise SystemExit(said)
    # Only children of this batch have exited since the last call.
    times = os.times()
    cpu = times.children_user + times.children_system - sum(spent)
    spent.append(cpu)
    fifth = max(1, len(looks) // 5)
    return {
        "wall s": round(wall, 1),
        "submissions a minute": round(60 * size / wall, 1),
        "CPU s a submission": round(cpu / size, 3),
        "memory MiB, second fifth": round(statistics.median(looks[fifth : 2 * fifth] or looks)),
        "memory MiB, last fifth": round(statistics.median(looks[-fifth:])),
    }


spent: list[float] = []


def hand_in(folder: Path, size: int) -> None:
    """Write `size` archives, each with different sources."""
    course = courses.load()
    sources = {problem.path: course.reference_of(problem) for problem in course.problems}
    folder.mkdir()
    for i in range(size):
        with zipfile.ZipFile(folder / f"s{i:04}.zip", "w", zipfile.ZIP_DEFLATED) as archive:
            for path, text in sources.items():
                archive.writestr(path, f"{text}# {i}\n")


def watch(pid: int, looks: list[float]) -> None:
    """Record the memory of a process and all its descendants until it exits.

    A memory page that several processes share is counted once.
    """
    while os.path.exists(f"/proc/{pid}"):
        bytes_held = sum(map(proportional, family(pid)))
        if bytes_held:
            looks.append(bytes_held / 2**20)
        time.sleep(SECONDS_BETWEEN_LOOKS)


def family(pid: int) -> Iterator[int]:
    """A process and its descendants."""
    yield pid
    try:
        for task in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{task}/children") as file:
                for child in file.read().split():
                    yield from family(int(child))
    except OSError:
        return


def proportional(pid: int) -> int:
    """The proportional set size of a process, in bytes; 0 if it has exited."""
    try:
        with open(f"/proc/{pid}/smaps_rollup") as file:
            lines = [line.split() for line in file]
    except OSError:
        return 0
    return sum(1024 * int(words[1]) for words in lines if words and words[0] == "Pss:")


if __name__ == "__main__":
    main()
