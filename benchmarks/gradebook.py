"""The size and speed of a gradebook: 2,000 students with five attempts each.

    python benchmarks/gradebook.py RESULT.json [--students N] [--attempts N] [--json FILE]

RESULT.json is the result of `grader grade --json` for a real submission; every attempt gets a copy
with different scores and sources. The benchmark prints the size of the file, the seconds of
`grader status`, of an export and of storing one attempt with its result, and the time for storing
relative to the time for grading.
"""

import argparse
import json
import random
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec
import single

from grader.base.errors import Status
from grader.classroom import gradebook, setups
from grader.classroom.records import Student
from grader.course import courses
from grader.report import json_report
from grader.results.points import problem_result, submission_result
from grader.results.records import SubmissionResult
from grader.submission.submissions import Submission

DUE = datetime(2026, 10, 2, tzinfo=UTC)


def main() -> None:
    """Measure, print the results, and write them to a file."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("result", type=Path, help="a result of `grader grade --json`")
    parser.add_argument("--students", type=int, default=2000)
    parser.add_argument("--attempts", type=int, default=5)
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "class.sqlite")
        figures = {
            "environment": single.environment(),
            "students": options.students,
            "attempts each": options.attempts,
            **made(path, json_report.read(options.result), options.students, options.attempts),
            "seconds of grader status": timed("status", path),
            "seconds of grader export --csv": timed("export", path, "--csv", Path(folder, "t.csv")),
        }
    for name, value in figures.items():
        print(f"{name:<40} {value}")
    if options.json:
        options.json.write_text(json.dumps(figures, indent=2) + "\n")


def made(path: Path, result: SubmissionResult, students: int, attempts: int) -> dict[str, object]:
    """Fill a gradebook; return its size and the time for storing."""
    course = courses.load()
    rng = random.Random(0)
    sources = {f"assignment/{p.name}": p.read_bytes() for p in course.reference.glob("[!_]*.py")}
    seconds = 0.0
    with gradebook.writing(path, create=True) as book:
        setup = book.number_of(
            setups.of_today(course, course.problems, device="cpu", isolation="bubblewrap", seed=0)
        )
        book.apply(setup, why="batch")
        for i in range(students):
            book.enrol([Student(id=f"s{i:05}", name=f"Student {i}", section="ABC"[i % 3])])
            for number in range(attempts):
                changed = rng.choice(sorted(sources))
                own = {**sources, changed: sources[changed] + f"# {i} {number}\n".encode()}
                submission = Submission(f"s{i:05}", own, [])
                found = varied(result, submission, rng)
                started = time.perf_counter()
                at = DUE + timedelta(hours=rng.uniform(-90, 30))
                book.add_attempt(f"s{i:05}", f"s{i:05}.zip", submission, submitted_at=at)
                book.keep(setup, found)
                seconds += time.perf_counter() - started
    each = seconds / (students * attempts)
    return {
        "size in MB": round(path.stat().st_size / 1e6, 1),
        "seconds of storing one attempt and its result": round(each, 5),
        "the same, relative to grading it": round(each / result.seconds, 5),
    }


def varied(result: SubmissionResult, of: Submission, rng: random.Random) -> SubmissionResult:
    """The result for other sources, with a few more failures whose texts differ."""
    problems = []
    for problem in result.problems:
        tests = [
            msgspec.structs.replace(
                test, status=Status.FAILED, what=f"got {rng.random()}, expected {rng.random()}"
            )
            if test.status is Status.PASSED and rng.random() < 0.1
            else test
            for test in problem.tests
        ]
        problems.append(
            problem_result(problem.id, problem.module, problem.max_score, tests, problem.device)
        )
    return submission_result(of.info, result.grader, problems, seconds=result.seconds)


def timed(command: str, path: Path, *options: object) -> float:
    """The seconds that a grader command takes on the gradebook."""
    started = time.perf_counter()
    whole = [sys.executable, "-m", "grader", command, str(path), *map(str, options)]
    subprocess.run(whole, check=True, stdout=subprocess.DEVNULL)
    return round(time.perf_counter() - started, 3)


if __name__ == "__main__":
    main()
