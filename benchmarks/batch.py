"""Grade many submissions one after the other in one process and one sandbox, as for a class.

    python benchmarks/batch.py [--submissions N] [--only PROBLEM]... [--json FILE]

The benchmark prints three things: the CPU seconds per submission relative to plain pytest on the
same tests and solution, with one thread each; the memory of the trusted process and the zygote
after the tenth and the last submission; and the wall seconds, relative to the reference, of
submissions whose functions fail in every way, of one whose functions all sleep, and of the
reference with a new process for each test. The first failing submission is not measured, just as
the first reference is not.
"""

import argparse
import ast
import statistics
import time
from collections.abc import Callable
from typing import Any

import single

from grader.course import courses
from grader.course.courses import Course
from grader.grading.grade import grade
from grader.sandbox.sandbox import Sandbox
from grader.submission.submissions import Submission

# Function bodies that fail in different ways; the functions of a submission get them in turn.
FAILURES = [
    "raise NotImplementedError('todo')",
    "raise ValueError('no')",
    "return None",
    "return 7",
    "import os; os._exit(3)",
    "bytearray(2**42)",
    "import os; os.abort()",
    "return object()",
]
ASLEEP = ["import time\nwhile True: time.sleep(10**6)"]


def main() -> None:
    """Measure, print the results, and write them to a file."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--submissions", type=int, default=50, help="how many (default: 50)")
    single.add_options(parser)
    options = parser.parse_args()
    figures = {"environment": single.environment(), **batch(options.submissions, options.only)}
    single.show(figures, options.json)


def batch(submissions: int, only: list[str]) -> dict[str, Any]:
    """Grade the reference `submissions` times, then one submission of each other kind.

    pytest runs before every tenth submission, so that a change in the machine's speed affects both.
    """
    course = courses.load()
    plain_pytest, problems = single.plain_pytest(only), single.chosen(only)
    single.timed(plain_pytest)
    plain = []
    with Sandbox.of(course, isolation="bubblewrap") as sandbox:

        def graded(sources: dict[str, bytes], **options: Any) -> tuple[float, float]:
            """The CPU and wall seconds of both sides for one submission."""
            cpu, wall = single.cpu_seconds(sandbox), time.perf_counter()
            submission = Submission("one", sources, [])
            grade(submission, course, sandbox, problems=problems, **options)
            sandbox.wait_until_ready()
            return single.cpu_seconds(sandbox) - cpu, time.perf_counter() - wall

        sandbox.wait_until_ready()
        reference = changed(course, lambda function: None)
        taken, memory = [], []
        for number in range(submissions):
            if number % 10 == 0:
                plain.append(single.timed(plain_pytest)[1])
            taken.append(graded(reference))
            memory.append((single.memory("self"), single.memory(sandbox.host_pid)))
        wall = statistics.median(w for _, w in taken[1:])
        failing = changed(course, in_turn(FAILURES))
        graded(failing)  # loads the known mistakes that failures are compared with
        others = {
            "one process a test": graded(reference, fresh=True)[1],
            "every kind of failure": graded(failing)[1],
            "every function sleeps": graded(changed(course, in_turn(ASLEEP)))[1],
        }
    cpu, of_pytest = [c for c, _ in taken], statistics.median(plain)
    return {
        "submissions": submissions,
        "pytest CPU s (median)": round(of_pytest, 2),
        "a submission's CPU s (median)": round(statistics.median(cpu), 2),
        "a submission / pytest, CPU (median)": round(statistics.median(cpu) / of_pytest, 3),
        "a submission / pytest, CPU (min, max)": [
            round(least / of_pytest, 3) for least in (min(cpu), max(cpu))
        ],
        "a submission's wall s (median)": round(wall, 2),
        "memory MiB after the 10th, trusted and zygote": memory[min(9, submissions - 1)],
        "memory MiB after the last, trusted and zygote": memory[-1],
        **{f"{name}, wall s": round(seconds, 1) for name, seconds in others.items()},
        **{f"{name} / reference, wall": round(s / wall, 2) for name, s in others.items()},
    }


def changed(course: Course, change: Callable[[ast.FunctionDef], None]) -> dict[str, bytes]:
    """The reference, with `change` applied to each function and method."""
    sources = {}
    for problem in course.problems:
        tree = ast.parse(course.reference_of(problem))
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef):
                change(node)
        sources[problem.path] = ast.unparse(tree).encode()
    return sources


def in_turn(bodies: list[str]) -> Callable[[ast.FunctionDef], None]:
    """Replace the bodies of functions by these, one after the other."""
    count = 0

    def change(function: ast.FunctionDef) -> None:
        nonlocal count
        function.body = ast.parse(bodies[count % len(bodies)]).body
        count += 1

    return change


if __name__ == "__main__":
    main()
