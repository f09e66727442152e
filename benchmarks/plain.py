"""What each device that only makes a grade faster saves: a grade with it turned off, and without.

    python benchmarks/plain.py [--rounds N] [--json FILE] [--only DEVICE]...

The devices are those of `grader/shared/speed.py`. For each, the reference is graded cold by the
command, cold with the CPU time of both sides, and warm, all with the device turned off and, in
turns, with all devices turned on. The benchmark prints the ratios of the medians.
"""

import argparse
import json
import statistics
import sys
import tempfile
import time
from pathlib import Path

import single

from grader.course import courses
from grader.grading.grade import grade
from grader.sandbox.box import Sandbox
from grader.shared.speed import DEVICES, SWITCH
from grader.submission.submissions import Submission

Times = tuple[float, float, float]
KINDS = ("cold wall", "cold CPU", "warm CPU")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=5, help="runs of each kind (default: 5)")
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    parser.add_argument("--only", action="append", choices=[*DEVICES, "1"],
                        help="measure this device; 1: all off (default: each of them)")  # fmt: skip
    parser.add_argument("--grade-twice", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.grade_twice:
        print(*graded_twice())
        return
    chosen = options.only or [*DEVICES, "1"]
    with tempfile.TemporaryDirectory() as folder:
        sources = {p.path: courses.load().reference_of(p) for p in courses.load().problems}
        for path, text in sources.items():
            Path(folder, path).parent.mkdir(exist_ok=True)
            Path(folder, path).write_text(text)
        measured(folder, "")  # a warm-up
        times: dict[str, list[Times]] = {name: [] for name in ("", *chosen)}
        for number in range(options.rounds):
            for name, found in times.items():
                found.append(measured(folder, name))
                print(f"\rround {number + 1} of {options.rounds}: {name or 'all on':<12}",
                      end="", file=sys.stderr)  # fmt: skip
    print(file=sys.stderr)
    usual = medians(times.pop(""))
    ratios = {name: dict(zip(KINDS, map(divided, medians(found), usual), strict=True))
              for name, found in times.items()}  # fmt: skip
    print("all on: " + ", ".join(f"{k} {s:.2f} s" for k, s in zip(KINDS, usual, strict=True)))
    for name, of in ratios.items():
        print(f"{name:<12}" + "".join(f"   {kind} {ratio:.3f}" for kind, ratio in of.items()))
    if options.json:
        figures = {"environment": single.environment(), "seconds": usual, "ratios": ratios}
        options.json.write_text(json.dumps(figures, indent=2) + "\n")


def divided(off: float, on: float) -> float:
    """How many times as long a grade takes."""
    return round(off / on, 3)


def medians(times: list[Times]) -> list[float]:
    """The median of each kind."""
    return [statistics.median(kind) for kind in zip(*times, strict=True)]


def measured(folder: str, off: str) -> Times:
    """Wall seconds of the command, and CPU seconds of both sides of a cold and of a warm grade."""
    switched = {SWITCH: off}
    started = time.perf_counter()
    single.output_of([sys.executable, "-m", "grader", "grade", folder], switched)
    wall = time.perf_counter() - started
    said = single.output_of([sys.executable, __file__, "--grade-twice"], switched)
    cold, warm = map(float, said.split())
    return wall, cold, warm


def graded_twice() -> tuple[float, float]:
    """The CPU seconds of both sides of this process's first grade, with its start, and second."""
    course = courses.load()
    sources = {p.path: course.reference_of(p).encode() for p in course.problems}
    with Sandbox.of(course, isolation="bubblewrap") as sandbox:
        grade(Submission("reference", sources, []), course, sandbox)
        cold = single.cpu_seconds(sandbox)
        grade(Submission("reference", sources, []), course, sandbox)
        return cold, single.cpu_seconds(sandbox) - cold


if __name__ == "__main__":
    main()
