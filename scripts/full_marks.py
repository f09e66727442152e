"""Report as Markdown whether a result has all points of the course: full_marks.py RESULT.json

The exit code is 1 if any point is missing.
"""

import argparse
import json
import sys
from pathlib import Path

from grader.course import courses


def main() -> int:
    """Print the total, and a row for each problem below its full points."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "result", type=Path, help="the file from `grader grade --json` or `grader merge --json`"
    )
    result = json.loads(parser.parse_args().result.read_text(encoding="utf-8"))
    problems = courses.load().problems
    graded = {problem["id"]: problem for problem in result["problems"]}
    short = []
    for problem in problems:
        score, status = (
            graded[problem.id][key] if problem.id in graded else None for key in ("score", "status")
        )
        if score != problem.points:
            short.append(f"| {problem.id} | {score} of {problem.points} | {status} |")
    points = sum(problem.points for problem in problems)
    print(f"# {result['score']:g} of {points} points, on {result['grader']['device']}\n")
    if short:
        print("| problem | points | status |", "| --- | ---: | --- |", *short, sep="\n")
    return 1 if short or result["score"] != points else 0


if __name__ == "__main__":
    sys.exit(main())
