"""Run steps one after the other within one budget of time, and write each result as it comes.

A step that takes longer than its own limit has failed. A step that no longer fits into the budget
is not reached, and the next call runs it. At the end of a step, all its processes are ended, also
those that have left its session. The results survive `kill -9`: the next call ends what is left of
the step that was running, and goes on with it.
"""

import ctypes
import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

PASSED, FAILED, IMPOSSIBLE, NOT_REACHED = "passed", "failed", "not possible here", "not reached"
SCHEMA = 1
# Every process of a step has this variable, so that a later call finds those of a killed one.
MARK = "PROVE_GPU"
ENDING_SECONDS = 3.0  # that a step has to clean up, after SIGTERM
# After this time, a killed process hangs in a driver, where no signal ends it.
GIVE_UP_SECONDS = 10.0
PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36
LIBC = ctypes.CDLL(None)
# Judges the exit code of a step and what it printed: whether it passed, and its figure.
Judge = Callable[[int, str], tuple[bool, str]]


@dataclass(frozen=True)
class Step:
    """One thing to be shown.

    Attributes:
        name: Its name in the results and on the command line.
        owed: What it shows, in a line.
        commands: Command lines, run in order until one fails.
        judge: Judges their output.
        usual: The seconds that it needs; with fewer left, it is not started.
        limit: The seconds after which the step has failed.
        needs: What it needs of the machine; see `prove_gpu.missing`.
        simulated: The verdict that it must have on the simulated GPU.
    """

    name: str
    owed: str
    commands: tuple[tuple[str, ...], ...]
    judge: Judge
    usual: float
    limit: float = 0.0
    needs: tuple[str, ...] = ()
    simulated: str = PASSED


@dataclass
class Result:
    """How a step ended; the figure is what it measured, or why it has no result."""

    owed: str
    verdict: str = NOT_REACHED
    figure: str = ""
    seconds: float = 0.0
    command: str = ""


class Results:
    """The results in a file, which is replaced after each step.

    Args:
        path: The file.
        machine: What identifies the machine.
        steps: All steps, in order.

    Raises:
        ValueError: The file is no such file, or is about another machine; the text says so.
    """

    def __init__(self, path: Path, machine: Mapping[str, str], steps: Sequence[Step]) -> None:
        self._path, self._machine = path, dict(machine)
        old: dict[str, Any] = {}
        if path.exists():
            with suppress(ValueError):
                old = json.loads(path.read_text())
            if not isinstance(old, dict) or old.get("schema") != SCHEMA:
                raise ValueError(f"{path} is no file of results: name another folder")
            if old["machine"] != self._machine:
                raise ValueError(f"{path} has results of another machine: name another folder")
        known = old.get("steps", {})
        self.of = {step.name: Result(**known.get(step.name, {"owed": step.owed})) for step in steps}

    def write(self) -> None:
        """Replace the file."""
        steps = {name: asdict(result) for name, result in self.of.items()}
        text = json.dumps({"schema": SCHEMA, "machine": self._machine, "steps": steps}, indent=2)
        new = self._path.with_suffix(".new")
        with new.open("w") as file:
            file.write(f"{text}\n")
            file.flush()
            os.fsync(file.fileno())
        new.replace(self._path)


def run_all(
    steps: Sequence[Step],
    results: Results,
    folder: Path,
    *,
    seconds: float,
    reasons: Mapping[str, str],
    environment: Mapping[str, str],
    cwd: Path,
) -> None:
    """Run the steps that have no result yet.

    Args:
        steps: The steps, the most valuable first.
        results: Where the results go; those of earlier calls stay.
        folder: The folder for the output of each step.
        seconds: The budget.
        reasons: Why this machine lacks something that a step may need, by its name in `needs`.
        environment: The environment of the commands.
        cwd: Their working folder.
    """
    ends = time.monotonic() + seconds
    LIBC.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    marked = {**environment, MARK: str(folder.resolve())}
    end_all(_left_by(marked[MARK]))
    results.write()
    for number, step in enumerate(steps, 1):
        result = results.of[step.name]
        if result.verdict in (PASSED, FAILED):
            continue
        place = f"[{number}/{len(steps)}] {step.name}"
        left = ends - time.monotonic()
        if why := next((reasons[need] for need in step.needs if reasons.get(need)), ""):
            result.verdict, result.figure = IMPOSSIBLE, why
        elif left < step.usual:
            result.figure = f"{max(left, 0):.0f} s were left, and it needs {step.usual:.0f} s"
        else:
            print(f"{place}: {step.owed} (at most {min(left, step.limit):.0f} s)", flush=True)
            _run(step, result, folder / f"{step.name}.log", min(step.limit, left), marked, cwd)
        results.write()
        after = f" after {result.seconds:.0f} s" if result.seconds else ""
        print(f"{place}: {result.verdict}{after}: {result.figure}", flush=True)


def _run(
    step: Step,
    result: Result,
    log: Path,
    seconds: float,
    environment: Mapping[str, str],
    cwd: Path,
) -> None:
    """Run the commands of a step, and judge them."""
    started = time.monotonic()
    ends = started + seconds - ENDING_SECONDS
    code: int | None = 0
    with log.open("wb") as output:
        for command in step.commands:
            result.command = " ".join(command)
            output.write(f"$ {result.command}\n".encode())
            output.flush()
            code = _command(command, output, ends, environment, cwd)
            if code != 0:
                break
    result.seconds = round(time.monotonic() - started, 1)
    said = log.read_text(errors="replace")
    if code is not None:
        is_right, result.figure = step.judge(code, said)
        result.verdict = PASSED if is_right else FAILED
    elif seconds < step.limit:
        result.figure = f"the time of this call was used up after {result.seconds:.0f} s"
    else:
        result.verdict, last = FAILED, _last_line(said)
        result.figure = f"not done after {step.limit:.0f} s; its last line: {last}"


def _command(
    command: Sequence[str], output: Any, ends: float, environment: Mapping[str, str], cwd: Path
) -> int | None:
    """Run one command; return its exit code, or None if it had to be ended."""

    def with_its_parent() -> None:
        LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)

    try:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env=dict(environment),
            cwd=cwd,
            start_new_session=True,
            preexec_fn=with_its_parent,
        )
    except OSError as e:
        output.write(f"{e}\n".encode())
        output.flush()
        return 127
    try:
        return process.wait(max(0.0, ends - time.monotonic()))
    except subprocess.TimeoutExpired:
        process.terminate()
        with suppress(subprocess.TimeoutExpired):
            process.wait(ENDING_SECONDS)
        return None
    finally:
        ends = time.monotonic() + GIVE_UP_SECONDS
        while (left := _descendants()) and time.monotonic() < ends:
            end_all(left)


def end_all(processes: Sequence[int]) -> None:
    """Kill these processes, and wait for those that are children of this one."""
    for process in processes:
        with suppress(ProcessLookupError, PermissionError):
            os.kill(process, signal.SIGKILL)
    with suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    if processes:
        time.sleep(0.01)


def _descendants() -> list[int]:
    """The children of this process, their children, and so on; without zombies of others."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            state, parent = entry.read_text(errors="replace").rpartition(")")[2].split()[:2]
            if state != "Z" or int(parent) == os.getpid():
                children.setdefault(int(parent), []).append(int(entry.parent.name))
    found, waiting = [], [os.getpid()]
    while waiting:
        below = children.get(waiting.pop(), [])
        found += below
        waiting += below
    return found


def _left_by(mark: str) -> list[int]:
    """The processes of a step of an earlier call that was killed."""
    wanted, found = f"{MARK}={mark}".encode(), []
    for entry in Path("/proc").glob("[0-9]*/environ"):
        with suppress(OSError):
            if wanted in entry.read_bytes().split(b"\0"):
                found.append(int(entry.parent.name))
    return [process for process in found if process != os.getpid()]


def _last_line(text: str) -> str:
    return next((line.strip() for line in reversed(text.splitlines()) if line.strip()), "")[:200]
