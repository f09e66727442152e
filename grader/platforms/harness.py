"""Grade the submission in Gradescope's container, and write a result whatever happens.

A subprocess, `grader grade`, does the grading. So this process can still write a result if the
kernel kills the subprocess, or if Gradescope is about to stop the container. If the grader fails,
the result has no points: Gradescope then shows that the run failed, and does not record a 0.
"""

import os
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from grader.base import files, output_paths
from grader.base.errors import GraderFault, SubmissionRefused, UsageError
from grader.base.output_paths import Named, Writes
from grader.course import courses
from grader.course.courses import GRADER_BYTES, Course
from grader.course.late_policy import Policy
from grader.platforms import gradescope_metadata
from grader.report import gradescope_report, json_report
from grader.report.report_contents import Reported
from grader.submission.reader import SubmissionReader

OURS = (
    "The grader failed, so there are no points yet. The fault is ours, and nobody loses a point: "
    "hand in again, or tell the course's staff."
)
HOME = Path("/autograder")
# Seconds of the container's time that no test may use: to start on a slow processor, to judge the
# last answers, and to write the result.
START_SECONDS = 20.0
RESERVED_SECONDS = 60.0
LAST_SECONDS = 15.0
END_SECONDS = 5.0
MIB = 2**20
LEAST_BYTES_OF_A_TEST = 64 * MIB
CONTROL_GROUPS = Path("/sys/fs/cgroup")
UNLIMITED_BYTES = 2**60  # the first version of control groups writes "no limit" as a large number


@dataclass(frozen=True)
class Container:
    processors: float  # the number of processors, which may be a fraction
    memory_bytes: int | None  # the memory; None if it is not limited

    def __str__(self) -> str:
        memory = "all memory" if self.memory_bytes is None else f"{self.memory_bytes >> 20} MiB"
        return f"{self.processors:g} processors and {memory}"


def container_of_this_process(
    groups: Path = CONTROL_GROUPS, own: Path = Path("/proc/self/cgroup")
) -> Container:
    """Read the limits of this process's control group, which the file `own` names."""
    processors = float(len(os.sched_getaffinity(0)))
    memory = None
    for folder in _folders(groups, own):
        with suppress(OSError, ValueError):
            quota, period = (folder / "cpu.max").read_text().split()
            processors = min(processors, int(quota) / int(period))
        with suppress(OSError, ValueError):
            microseconds = int((folder / "cpu.cfs_quota_us").read_text())
            period_microseconds = int((folder / "cpu.cfs_period_us").read_text())
            if microseconds > 0:
                processors = min(processors, microseconds / period_microseconds)
        for name in ("memory.max", "memory.limit_in_bytes"):
            with suppress(OSError, ValueError):
                limit = int((folder / name).read_text())
                if limit < UNLIMITED_BYTES:
                    memory = limit if memory is None else min(memory, limit)
    return Container(processors, memory)


def _folders(groups: Path, own: Path) -> list[Path]:
    """The folders that may describe this process's group, and their parents."""
    found = {groups, groups / "cpu", groups / "memory"}
    with suppress(OSError, ValueError):
        for line in own.read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            for top in (groups, *(groups / name for name in controllers.split(",") if name)):
                place = top / path.strip("/")
                found |= {place, *(p for p in place.parents if p.is_relative_to(top))}
    return sorted(found)


def run(home: Path, course: Course, rules: Policy) -> None:
    """Grade `submission` in the folder `home`, and write its results/results.json.

    Raises:
        UsageError: The result would overwrite an input, or has no folder.
        MachineFault: The result cannot be written.
    """
    began = time.monotonic()
    target = home / "results" / "results.json"
    read = [Named("the input", home / name) for name in ("submission", "submission_metadata.json")]
    result = Named("the result", target)
    own = [*courses.own_files(course.root), courses.PACKAGE]
    output_paths.check([(result, Writes())], read, own)
    container = container_of_this_process()
    print(f"grader: this container has {container}", file=sys.stderr)
    try:
        with SubmissionReader() as reader:
            reader.read(home / "submission", course.accepted)
        content = _graded(home, course, rules, container, began)
    except SubmissionRefused as e:
        content = gradescope_report.nothing_earned(f"This submission cannot be graded: {e}.")
    except GraderFault as e:
        content = gradescope_report.without_points(f"{OURS}\n\n{e}")
    files.write(target, content.encode())


def _graded(home: Path, course: Course, rules: Policy, container: Container, began: float) -> str:
    seconds = 60 * rules.gradescope_minutes
    with tempfile.TemporaryDirectory(prefix="grader-") as folder:
        report = Path(folder, "result.json")
        command = [
            *(sys.executable, "-m", "grader", "grade", str(home / "submission")),
            *("--course", str(course.root), "--json", str(report)),
            *_limits(course, container, seconds),
        ]
        ended = _ends(command, began + seconds - LAST_SECONDS)
        try:
            result = json_report.parse(files.read(report, most=2**30).decode())
        except (UsageError, ValueError):
            why = _why(ended, container, rules)
            return gradescope_report.without_points(f"{OURS}\n\n{why}")
    metadata = gradescope_metadata.read(home / "submission_metadata.json")
    score = None if result.has_grader_error else result.score
    late = gradescope_metadata.lateness(metadata, rules, score)
    return gradescope_report.render(Reported(result, late, shows=rules.gradescope))


def _limits(course: Course, container: Container, seconds: float) -> list[str]:
    """Options for `grader grade`: the time for all tests, and the memory for one of them."""
    start = START_SECONDS / min(1.0, container.processors)
    limits = ["--seconds", f"{max(60.0, seconds - start - RESERVED_SECONDS):.0f}"]
    if container.memory_bytes is not None:
        left = container.memory_bytes - GRADER_BYTES
        of_a_test = max(LEAST_BYTES_OF_A_TEST, min(course.limits.memory_bytes, left))
        limits += ["--memory-mib", str(of_a_test // MIB)]
        if left < LEAST_BYTES_OF_A_TEST:
            print(
                f"grader: {container.memory_bytes // MIB} MiB may be too little: give the "
                f"container {(GRADER_BYTES + LEAST_BYTES_OF_A_TEST) // MIB} MiB or more",
                file=sys.stderr,
            )
    return limits


def _ends(command: list[str], deadline: float) -> int | None:
    """Run a command; return its exit code, or None if it was killed at the deadline."""
    # In the container, the grader is not installed. It is the current folder, from which the
    # process would import nothing.
    environment = {**os.environ, "PYTHONPATH": str(courses.PACKAGE.parent)}
    process = subprocess.Popen(command, process_group=0, env=environment)
    try:
        return process.wait(max(0.0, deadline - time.monotonic()))
    except subprocess.TimeoutExpired:
        for number in (signal.SIGTERM, signal.SIGKILL):
            with suppress(ProcessLookupError):
                os.killpg(process.pid, number)
            with suppress(subprocess.TimeoutExpired):
                process.wait(END_SECONDS)
        return None


def _why(ended: int | None, container: Container, rules: Policy) -> str:
    if ended is None:
        return (
            f"It did not finish within Gradescope's {rules.gradescope_minutes:g} minutes, on "
            f"{container}."
        )
    if ended == -signal.SIGKILL:
        return f"It was killed, perhaps because its memory ran out; the container has {container}."
    return f"It exited with code {ended}; its output says why."
