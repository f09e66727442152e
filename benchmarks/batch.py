"""Grade many submissions one after the other in one process and one sandbox, as for a class.

    python benchmarks/batch.py [--submissions N] [--only PROBLEM]... [--json FILE]

The benchmark prints the CPU seconds per submission relative to plain pytest on the same tests and
solution, with one thread each, and the memory of the trusted process and the zygote after the tenth
and the last submission.
"""

import argparse
import statistics
import time
from typing import Any

import single

from grader.course import courses
from grader.grading.grade import grade
from grader.sandbox.sandbox import Sandbox
from grader.submission.submissions import Submission


def main() -> None:
    """Measure, print the results, and write them to a file."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--submissions", type=int, default=50, help="how many (default: 50)")
    single.add_options(parser)
    options = parser.parse_args()
    figures = {"environment": single.environment(), **batch(options.submissions, options.only)}
    single.show(figures, options.json)


def batch(submissions: int, only: list[str]) -> dict[str, Any]:
    """Grade the reference `submissions` times.

    pytest runs before every tenth submission, so that a change in the machine's speed affects both.
    """
    course = courses.load()
    plain_pytest, problems = single.plain_pytest(only), single.chosen(only)
    single.timed(plain_pytest)
    plain, cpu, walls, memory = [], [], [], []
    reference = Submission("one", courses.sources_in(course.reference), [])
    with Sandbox.of(course, isolation="bubblewrap") as sandbox:
        sandbox.wait_until_ready()
        for number in range(submissions):
            if number % 10 == 0:
                plain.append(single.timed(plain_pytest)[1])
            used, began = single.cpu_seconds(sandbox), time.perf_counter()
            grade(reference, course, sandbox, problems=problems)
            sandbox.wait_until_ready()
            cpu.append(single.cpu_seconds(sandbox) - used)
            walls.append(time.perf_counter() - began)
            memory.append((single.memory("self"), single.memory(sandbox.host_pid)))
    of_pytest = statistics.median(plain)
    return {
        "submissions": submissions,
        "pytest CPU s (median)": round(of_pytest, 2),
        "a submission's CPU s (median)": round(statistics.median(cpu), 2),
        "a submission / pytest, CPU (median)": round(statistics.median(cpu) / of_pytest, 3),
        "a submission / pytest, CPU (min, max)": [
            round(least / of_pytest, 3) for least in (min(cpu), max(cpu))
        ],
        "a submission's wall s (median)": round(statistics.median(walls[1:]), 2),
        "memory MiB after the 10th, trusted and zygote": memory[min(9, submissions - 1)],
        "memory MiB after the last, trusted and zygote": memory[-1],
    }


if __name__ == "__main__":
    main()
