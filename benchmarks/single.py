"""Compare a cold run of `grader grade` with plain pytest on the same tests and solution.

    python benchmarks/single.py [--rounds N] [--only PROBLEM]... [--json FILE]

`make bench` writes benchmarks/results/single.json. With a shortcut of grader/wire/shortcuts.py
turned off, as in `GRADER_PLAIN=exit python benchmarks/single.py`, it shows what that saves. Both
commands run on one thread, like the worker: with more threads, pytest would take more CPU time for
the same tests.

The benchmark prints the wall and CPU seconds of `grader grade` relative to pytest in one process
(medians of interleaved rounds), the round-trip time of an empty probe, the time to transfer a
tensor of 10 MB in each direction relative to copying it, and the peak memory of both sides of a
grading.
"""

import argparse
import contextlib
import io
import itertools
import json
import os
import platform
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import torch

from grader import __version__
from grader.course import courses
from grader.course.courses import Problem
from grader.sandbox.box import Sandbox
from grader.sandbox.session import Session
from tests.probes import benchmark as probes

ROOT = Path(__file__).resolve().parent.parent
MEGABYTES = 10  # an answer may take 16 MiB
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
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    parser.add_argument(
        "--cpu-of",
        type=Path,
        metavar="SUBMISSION",
        help="grade this submission once; print the CPU seconds and the peak memory of both sides",
    )
    parser.add_argument("--warm", type=int, help=argparse.SUPPRESS)
    add_only(parser)
    options = parser.parse_args()
    for run, given in [(cpu_of, options.cpu_of), (warm_rounds, options.warm)]:
        if given:
            run(given, options.only)
            return
    compared = whole_commands(options.rounds, options.only)
    figures = {"environment": environment(), **compared, **inside(options.rounds)}
    for name, value in figures.items():
        print(f"{name:<34} {value}")
    if options.json:
        options.json.write_text(json.dumps(figures, indent=2) + "\n")


def add_only(parser: argparse.ArgumentParser) -> None:
    """Add the option that names the problems to measure, all by default."""
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
    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree(courses.load().reference, Path(folder, "assignment"))
        grade = [sys.executable, "-m", "grader", "grade", folder, *options_of(only)]
        plain = plain_pytest(only)
        for command in (plain, grade) if rounds > 1 else ():
            timed(command)
        pairs = [(timed(plain), timed(grade)) for _ in range(rounds)]
        both = [sys.executable, __file__, "--cpu-of", folder, *options_of(only)]
        used = [list(map(float, output_of(both).split())) for _ in range(rounds)]
    cpu, zygote, trusted = (statistics.median(of_one) for of_one in zip(*used, strict=True))
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
        "peak memory, zygote, MiB": round(zygote, 1),
        "peak memory, trusted side, MiB": round(trusted, 1),
        **warm(rounds, only),
    }


def plain_pytest(only: list[str]) -> list[str]:
    """The command that runs the hidden tests on the reference in one process."""
    hidden = [str(ROOT / f"tests/hidden/{problem.id}/test_hidden.py") for problem in chosen(only)]
    return [sys.executable, "-m", "pytest", *QUIET, *hidden, "--package", REFERENCE]


def warm(rounds: int, only: list[str]) -> dict[str, Any]:
    """CPU seconds of a grading and of the tests alone, in turns in one warm process."""
    command = [sys.executable, __file__, "--warm", str(rounds), *options_of(only)]
    lines = output_of(command).splitlines()
    pairs = [tuple(map(float, line.split())) for line in lines]
    ratios = [graded / alone for graded, alone in pairs]
    return {
        "tests alone, warm, CPU s (median)": round(statistics.median(a for _, a in pairs), 2),
        "warm grade / tests alone, CPU (median)": round(statistics.median(ratios), 3),
        "warm grade / tests alone, CPU (min, max)": [round(min(ratios), 3), round(max(ratios), 3)],
    }


def warm_rounds(rounds: int, only: list[str]) -> None:
    """For each round except the first, print the CPU seconds of a grading and of pytest.

    The seconds of the grading are those of both sides. Both leave the tests' assertions as they
    are: pytest could not rewrite those of modules that the grader has imported.
    """
    import pytest

    from grader.grading.grade import grade
    from grader.submission.submissions import Submission

    course = courses.load()
    sources = {p.path: course.reference_of(p).encode() for p in course.problems}
    with Sandbox.of(course, isolation="bubblewrap") as sandbox:
        for number in range(rounds + 1):
            before = cpu_seconds(sandbox)
            reference = Submission("reference", sources, [])
            grade(reference, course, sandbox, problems=chosen(only))
            graded = cpu_seconds(sandbox) - before
            before = sum(os.times()[:4])  # with the processes that the tests themselves fork
            with contextlib.redirect_stdout(io.StringIO()):
                if pytest.main([*plain_pytest(only)[3:], "--assert=plain"]):
                    sys.exit("the reference fails a test")
            alone = sum(os.times()[:4]) - before
            if number:
                print(graded, alone)


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
    """Grade as the command does; print the CPU seconds of both sides, and the peak memory of each.

    The two sides are the zygote with its children, and this process.
    """
    from grader.grading.grade import grade
    from grader.submission.submissions import read

    course = courses.load()
    with Sandbox.of(course, isolation="bubblewrap") as sandbox:
        result = grade(read(submission), course, sandbox, problems=chosen(only))
        seconds, zygote = cpu_seconds(sandbox), peak_memory(sandbox.host_pid)
    if result.score != result.max_score:
        sys.exit(f"the reference has {result.score} of {result.max_score}")
    print(seconds, zygote, peak_memory(os.getpid()))


def timed(command: list[str]) -> tuple[float, float]:
    """Wall seconds, and CPU seconds including the child processes that the command waited for."""
    before, started = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    output_of(command)
    wall, after = time.perf_counter() - started, resource.getrusage(resource.RUSAGE_CHILDREN)
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def output_of(command: list[str], more: Mapping[str, str] | None = None) -> str:
    """The output of a command on one thread, with more variables of the environment.

    If the command fails, the benchmark exits without a measurement.
    """
    environment = {**ONE_THREAD, **(more or {})}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    if done.returncode:
        sys.exit(
            f"{' '.join(command[1:5])} … exited with {done.returncode}:\n"
            f"{(done.stdout + done.stderr)[-3000:]}"
        )
    return done.stdout


def inside(rounds: int) -> dict[str, Any]:
    """Round trips and transfers in one warm sandbox."""
    course = courses.load()
    sources = {p.path: course.reference_of(p).encode() for p in course.problems}
    with Sandbox.of(course, isolation="bubblewrap") as sandbox:
        sandbox.wait_until_ready()
        trips = [
            empty_trip(sandbox, Session(sandbox, sources, course.limits, seed=0, forbidden=[]))
            for _ in range(10 * rounds)
        ]
        there, back, fresh, warm = map(
            statistics.median,
            transfers(Session(sandbox, sources, course.limits, seed=0, forbidden=[])),
        )
    return {
        "empty probe, first of a test, own process, ms": milliseconds(t[0] for t in trips),
        "empty probe, next one, ms": milliseconds(t[1] for t in trips),
        "empty probe, first of a test, shared process, ms": milliseconds(t[2] for t in trips),
        "end of a process, ms": milliseconds(t[3] for t in trips),
        f"{MEGABYTES} MB copied, fresh memory, ms": milliseconds([fresh]),
        f"{MEGABYTES} MB copied, warm memory, ms": milliseconds([warm]),
        f"{MEGABYTES} MB in / copy to warm memory": round(there / warm, 2),
        f"{MEGABYTES} MB out / copy to warm memory": round(back / warm, 2),
    }


def empty_trip(sandbox: Sandbox, session: Session) -> list[float]:
    """Seconds of a test's first and second call, of another test's first call, and of the exit.

    The first call includes the fork, the files, the probe and the reply.
    """
    marks = [time.perf_counter()]
    for begins in (False, False, True):
        if begins:
            session.begin_test(0)
        session.run(probes.nothing, {})
        marks.append(time.perf_counter())
    session.close()
    sandbox.wait_until_ready()
    marks.append(time.perf_counter())
    return [later - earlier for earlier, later in itertools.pairwise(marks)]


def transfers(
    session: Session, rounds: int = 9
) -> tuple[list[float], list[float], list[float], list[float]]:
    """Seconds to send a tensor to the sandbox, to receive one, and to copy one.

    A copy goes to fresh or to warm memory. The four measurements alternate.
    """
    x = torch.ones(MEGABYTES * 10**6, dtype=torch.uint8)
    warm = torch.zeros_like(x)
    torch.set_num_threads(1)
    calls = [
        lambda: session.run(probes.take, {"x": x}),
        lambda: session.run(probes.give, {"count": x.numel()}),
        x.clone,
        lambda: warm.copy_(x),
    ]
    seconds: list[list[float]] = [[] for _ in calls]
    for _ in range(1 + rounds):  # the first round warms up
        session.begin_test(0)  # the answers of a test have a limit together
        session.run(probes.give, {"count": 1})
        for call, taken in zip(calls, seconds, strict=True):
            started = time.perf_counter()
            call()
            taken.append(time.perf_counter() - started)
    session.close()
    sent, received, fresh, kept = (taken[1:] for taken in seconds)
    return sent, received, fresh, kept


def milliseconds(seconds: Iterable[float]) -> float:
    """The median in milliseconds."""
    return round(1000 * statistics.median(seconds), 2)


def peak_memory(pid: int) -> float:
    """The peak resident memory of a process, in MiB."""
    return memory(pid, "VmHWM")


def memory(pid: int | str, which: str = "VmRSS") -> float:
    """The resident memory of a process, in MiB."""
    with open(f"/proc/{pid}/status") as f:
        return next(int(line.split()[1]) / 1024 for line in f if line.startswith(which))


if __name__ == "__main__":
    main()
