"""Compare a cold run of `grader grade` with plain pytest on the same tests and solution.

    python benchmarks/single.py [--rounds N] [--only PROBLEM]... [--json FILE]

`make bench` writes benchmarks/results/single.json. Both commands run on one thread, like the
worker: with more threads, pytest would take more CPU time for the same tests.

The benchmark prints the wall and CPU seconds of `grader grade` relative to pytest in one process
(medians of interleaved rounds).
"""

import argparse
import json
import os
import platform
import resource
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import torch

from grader import __version__
from grader.course import courses
from grader.course.courses import Problem
from grader.sandbox.sandbox import Sandbox

ROOT = Path(__file__).resolve().parent.parent
REFERENCE = "grader.solutions.reference"
QUIET = ["-q", "--no-header", "-p", "no:cacheprovider", "-p", "no:xdist"]
ONE_THREAD = {**os.environ, "OMP_NUM_THREADS": "1"}


def main() -> None:
    """Measure, print the results, and write them to a file."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--rounds",
        type=int,
        default=5,
        help="interleaved rounds of the whole commands (default: 5)",
    )
    parser.add_argument(
        "--cpu-of",
        type=Path,
        metavar="SUBMISSION",
        help="grade this submission once; print the CPU seconds of both sides",
    )
    add_options(parser)
    options = parser.parse_args()
    if options.cpu_of:
        cpu_of(options.cpu_of, options.only)
        return
    figures = {"environment": environment(), **whole_commands(options.rounds, options.only)}
    show(figures, options.json)


def show(figures: dict[str, Any], path: Path | None) -> None:
    """Print the figures, and write them to a file."""
    for name, value in figures.items():
        print(f"{name:<50} {value}")
    if path:
        lines = (f"  {json.dumps(name)}: {json.dumps(value)}" for name, value in figures.items())
        path.write_text("{\n" + ",\n".join(lines) + "\n}\n")


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options for the file of the figures, and for the problems, all by default."""
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    known = [problem.id for problem in courses.load().problems]
    parser.add_argument(
        "--only",
        action="append",
        choices=known,
        default=[],
        metavar="PROBLEM",
        help="measure this problem, not all; may be repeated",
    )


def chosen(only: list[str]) -> list[Problem]:
    """The problems to measure."""
    return [problem for problem in courses.load().problems if not only or problem.id in only]


def options_of(only: list[str]) -> list[str]:
    """The options that name them."""
    return [word for name in only for word in ("--only", name)]


def environment() -> dict[str, Any]:
    """The machine and the versions with which the figures were measured."""
    return {
        "grader": __version__,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "cores": len(os.sched_getaffinity(0)),
        "system": f"{platform.system()} {platform.release().split('-')[0]} {platform.machine()}",
        "bubblewrap": subprocess.run(
            ["bwrap", "--version"], capture_output=True, text=True
        ).stdout.strip(),
    }


def whole_commands(rounds: int, only: list[str]) -> dict[str, Any]:
    """Wall and CPU seconds of `grader grade` and of pytest on the reference.

    The two commands alternate. Unless there is one round, each first runs once to warm up.
    """
    submission = str(courses.load().reference)
    grade = [sys.executable, "-m", "grader", "grade", submission, *options_of(only)]
    plain = plain_pytest(only)
    for command in (plain, grade) if rounds > 1 else ():
        timed(command)
    pairs = [(timed(plain), timed(grade)) for _ in range(rounds)]
    both = [sys.executable, __file__, "--cpu-of", submission, *options_of(only)]
    cpu = statistics.median(float(output_of(both)) for _ in range(rounds))
    walls = [g[0] / p[0] for p, g in pairs]
    plain_cpu = statistics.median(p[1] for p, _ in pairs)
    return {
        "pytest wall s (median)": round(statistics.median(p[0] for p, _ in pairs), 2),
        "grade wall s (median)": round(statistics.median(g[0] for _, g in pairs), 2),
        "grade / pytest, wall (median)": round(statistics.median(walls), 3),
        "grade / pytest, wall (min, max)": [round(min(walls), 3), round(max(walls), 3)],
        "pytest CPU s (median)": round(plain_cpu, 2),
        "grade CPU s, both sides (median)": round(cpu, 2),
        "grade / pytest, CPU (of medians)": round(cpu / plain_cpu, 3),
    }


def plain_pytest(only: list[str]) -> list[str]:
    """The command that runs the hidden tests on the reference in one process."""
    hidden = [str(ROOT / f"tests/hidden/{problem.id}/test_hidden.py") for problem in chosen(only)]
    return [sys.executable, "-m", "pytest", *QUIET, *hidden, "--package", REFERENCE]


def cpu_seconds(sandbox: Sandbox) -> float:
    """The CPU seconds so far of this process, the zygote, and the zygote's exited children.

    The parent of bubblewrap does not see the CPU time of processes in another PID namespace, so the
    time is read from /proc.
    """
    sandbox.wait_until_ready()
    fields = Path(f"/proc/{sandbox.host_pid}/stat").read_text().rpartition(")")[2].split()
    # User and system time, of the process itself and of its children.
    ticks = sum(int(field) for field in fields[11:15])
    return time.process_time() + ticks / os.sysconf("SC_CLK_TCK")


def cpu_of(submission: Path, only: list[str]) -> None:
    """Grade as the command does; print the CPU seconds of the zygote's side and of this process."""
    from grader.grading.grade import grade
    from grader.submission.submissions import read

    course = courses.load()
    with Sandbox.of(course, isolation="bubblewrap") as sandbox:
        result = grade(read(submission, course.accepted), course, sandbox, problems=chosen(only))
        seconds = cpu_seconds(sandbox)
    if result.score != result.max_score:
        sys.exit(f"the reference has {result.score} of {result.max_score}")
    print(seconds)


def timed(command: list[str]) -> tuple[float, float]:
    """Wall seconds, and CPU seconds including the child processes that the command waited for."""
    before, started = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    output_of(command)
    wall, after = time.perf_counter() - started, resource.getrusage(resource.RUSAGE_CHILDREN)
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def output_of(command: list[str]) -> str:
    """The output of a command on one thread; if it fails, the benchmark exits."""
    done = subprocess.run(command, cwd=ROOT, env=ONE_THREAD, capture_output=True, text=True)
    if done.returncode:
        sys.exit(
            f"{' '.join(command[1:5])} … exited with {done.returncode}:\n"
            f"{(done.stdout + done.stderr)[-3000:]}"
        )
    return done.stdout


def memory(pid: int | str) -> float:
    """The resident memory of a process, in MiB."""
    with open(f"/proc/{pid}/status") as f:
        return next(int(line.split()[1]) / 1024 for line in f if line.startswith("VmRSS"))


if __name__ == "__main__":
    main()
