"""What reading a submission settles before any of it runs: modules that are missing, are no Python, or call what they may not.

A module is parsed in the sandbox, in a process that runs none of it, because a parser can be made to crash as well.
"""

from typing import Any

from grader.course import Problem
from grader.errors import Status, StudentFault
from grader.grading.job import Job
from grader.grading.verdict import Verdict
from grader.results.records import Fact
from grader.text import one_line

Found = StudentFault | dict[str, Any]  # what a parser says of a module


def settled_without_running(job: Job) -> dict[str, Verdict]:
    """Problems whose tests need not run, by id, and how these ended.

    Those whose module is missing or is no Python, and those that are certain to use what they ask for.
    """
    problems = job.here
    missing = [p for p in problems if p.path not in job.sources]
    settled = {
        p.id: Verdict(Status.NOT_ATTEMPTED, f"{p.path} is not in the submission") for p in missing
    }
    owners: dict[str, list[Problem]] = {}
    for problem in problems:
        if problem.path in job.sources:
            owners.setdefault(problem.path, []).append(problem)
    for path, found in _read(job, {path: job.sources[path] for path in owners}, owners).items():
        settled |= _unfit(path, found, owners[path])
    return settled


def _read(
    job: Job, sources: dict[str, bytes], owners: dict[str, list[Problem]]
) -> dict[str, Found]:
    """What a parser says of each module: of all in one process, or of each in its own where that one did not survive."""
    session = job.open_session(job.sandbox, sources, job.course.limits, seed=0, forbidden=[])
    try:
        rules = {path: [problem.rules for problem in owners[path]] for path in sources}
        found: dict[str, Found] = session.inspect(rules)
        return found
    except StudentFault as e:
        if len(sources) == 1:
            return dict.fromkeys(sources, e)
    finally:
        session.close()
    return {path: _read(job, {path: source}, owners)[path] for path, source in sources.items()}


def _unfit(path: str, found: Found, owners: list[Problem]) -> dict[str, Verdict]:
    """The problems of one module that are settled by reading it."""
    if isinstance(found, StudentFault):
        return {
            p.id: Verdict(found.status, one_line(f"{path} cannot be read: {found.text}", 600))
            for p in owners
        }
    if found["syntax"]:
        line, text = found["syntax"]
        what = f"{path}:{line}: SyntaxError: {one_line(text, 300)}"
        return {p.id: Verdict(Status.FAILED, what) for p in owners}
    certain = [
        use for use in found["uses"] if use["certain"] and not use["definition"]
    ]  # others cost what they run in
    first = {use["problem"]: use for use in reversed(certain)}
    return {p.id: _forbidden(first[p.id], path) for p in owners if p.id in first}


def _forbidden(use: dict[str, Any], path: str) -> Verdict:
    what = f"uses {one_line(use['name'], 200)}, which this problem has to do without"
    return Verdict(Status.POLICY, what, facts=(Fact("at", f"{path}:{use['line']}"),))
