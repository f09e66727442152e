"""List the known mistakes that fail a public test, so that students learn of them early.

    python scripts/predicted.py [PROBLEM ...] [--only MISTAKE ...] [--right] [--json]

For each problem, the script applies each known mistake to the reference in turn and runs the public
tests on it, in this process. It prints how many mistakes fail a test, and names those that fail
none. With --right it runs the tests on correct solutions in other styles, none of which may fail.
A mistake that does not fit the reference is named, and the exit code is 1.
"""

import argparse
import ast
import gc
import json
import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from grader.base.errors import CourseFault  # noqa: E402 - found by the path above
from grader.course import courses  # noqa: E402
from grader.course.courses import Course, Problem  # noqa: E402
from grader.proof.validate import right_solutions, to_catch  # noqa: E402
from grader.solutions.fragments import Solution  # noqa: E402


def main() -> None:
    """Print the table."""
    course = courses.load()
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("problems", nargs="*", metavar="PROBLEM", help="default: all")
    parser.add_argument("--only", nargs="+", metavar="MISTAKE", help="try only these mistakes")
    parser.add_argument("--right", action="store_true", help="try the correct solutions instead")
    parser.add_argument("--json", action="store_true", help="print the names as JSON")
    options = parser.parse_args()
    problems = [p for p in course.problems if not options.problems or p.id in options.problems]
    which = right_solutions if options.right else to_catch
    found, broken = {}, []
    for problem in problems:
        try:
            solutions = [
                solution
                for solution in which(course, problem, "cpu")
                if not options.only or solution.name in options.only
            ]
            found[problem.id], wrong = outcomes(course, problem, solutions)
            broken += wrong
        except CourseFault as e:
            broken.append(str(e))
    is_as_required = show(found, options)
    for text in broken:
        print(f"predicted: {text}", file=sys.stderr)
    sys.exit(not is_as_required or bool(broken))


def show(found: dict[str, dict[str, bool]], options: argparse.Namespace) -> bool:
    """Print which solutions fail a public test; whether no correct one does."""
    if options.json:
        print(json.dumps(found))
        return True
    if options.right:
        failing = [
            f"{name} {one}" for name, of in found.items() for one, told in of.items() if told
        ]
        print("\n".join(failing) or "all right solutions pass all public tests")
        return not failing
    for name, outcome in found.items():
        missed = [mistake for mistake, told in outcome.items() if not told]
        print(
            f"{name:<24} {len(outcome) - len(missed):>3} of {len(outcome):<3}  {' '.join(missed)}"
        )
    every = [told for outcome in found.values() for told in outcome.values()]
    print(f"{sum(every)} of {len(every)} known mistakes fail a public test")
    return True


def outcomes(
    course: Course, problem: Problem, solutions: list[Solution]
) -> tuple[dict[str, bool], list[str]]:
    """Whether each of a problem's solutions fails a public test, by the solution's name.

    The second value says why solutions could not be tried.

    Raises:
        CourseFault: The reference fails a public test.
    """
    test = course.tests / "public" / f"test_{problem.id}.py"
    reference = course.reference_of(problem)
    found: dict[str, bool] = {}
    broken = []
    gc.freeze()  # every run of pytest collects garbage several times, and torch has none
    with tempfile.TemporaryDirectory() as folder, _importable(folder):

        def failed(name: str, source: str) -> bool:
            package = Path(folder, name)
            package.mkdir()
            for path in course.reference.glob("*.py"):
                (package / path.name).write_bytes(path.read_bytes())
            (package / f"{problem.module}.py").write_text(source, encoding="utf-8")
            return fails(test, name)

        if failed(f"{problem.id}_right", reference):
            raise CourseFault(f"the reference fails {test}")
        for number, one in enumerate(solutions):
            try:
                source = one.applied_to(reference)
                ast.parse(source)
            except (CourseFault, SyntaxError) as e:
                broken.append(str(e) if isinstance(e, CourseFault) else f"{one.name}: {e}")
                continue
            found[one.name] = failed(f"{problem.id}_{number}", source)
    return found, broken


def fails(test: Path, package: str) -> bool:
    """Whether a package fails a test in this file."""
    options = [
        "-x",
        "-W",
        "ignore",
        "-p",
        "no:cacheprovider",
        "-p",
        "no:terminal",
        "--package",
        package,
    ]
    with open(os.devnull, "w") as nowhere, redirect_stdout(nowhere):
        code = pytest.main([*options, str(test)])
    assert code in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED), code
    return code == pytest.ExitCode.TESTS_FAILED


@contextmanager
def _importable(folder: str) -> Iterator[None]:
    sys.path.insert(0, folder)
    try:
        yield
    finally:
        sys.path.remove(folder)


if __name__ == "__main__":
    main()
