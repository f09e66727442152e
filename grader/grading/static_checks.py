"""Judge what the source shows: missing modules, syntax errors and forbidden calls.

A module is parsed in the sandbox, in a process that executes none of it, because even a parser can
be made to crash.
"""

from collections.abc import Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field
from typing import Any

from grader.base.errors import Status, StudentFault
from grader.course.courses import Problem
from grader.grading.grading_job import Calls, Job
from grader.grading.verdict import PYTHON
from grader.results.result_records import Fact, Ignored, Outcome
from kit import handing_in
from kit.safe_text import one_line

ModuleReport = StudentFault | dict[str, Any]  # what a parser reports about a module
SETS = "{}:{} calls {} when it is imported, which changes all code that runs later"


@dataclass(frozen=True)
class Checked:
    """What is known about a submission before any of it runs."""

    # How problems ended whose tests need not run, by the id of the problem. These are the problems
    # whose module is missing or is not Python, and those whose module certainly uses a name that
    # the problem forbids.
    settled: dict[str, Outcome]
    # The places, as `file:line`, of functions that do nothing but raise NotImplementedError there.
    stubs: frozenset[str]
    # What each module sets for all code when it is imported, as a sentence; by path.
    settings: dict[str, str] = field(default_factory=dict)


def check_without_running(job: Job, session: Calls) -> Checked:
    """Read the modules of a submission.

    All modules are read in one process. If that process dies while it parses them, each module is
    parsed in a process of its own, which alone can show that the module is to blame. The session,
    which has the job's sources, is closed afterwards.
    """
    problems = job.here
    missing = [p for p in problems if p.path not in job.sources]
    settled = {
        p.id: Outcome(status=Status.NOT_ATTEMPTED, what=_missing(p.path, job.ignored))
        for p in missing
    }
    owners: dict[str, list[Problem]] = {}
    for problem in problems:
        if problem.path in job.sources:
            owners.setdefault(problem.path, []).append(problem)
    rules = {path: [problem.rules for problem in each] for path, each in owners.items()}
    reports: dict[str, ModuleReport] = {}
    with closing(session), suppress(StudentFault):
        reports = session.inspect(rules)
    if not reports:
        reports = {path: _read_alone(job, path, each) for path, each in rules.items()}
    for path, found in reports.items():
        settled |= _unfit(path, found, owners[path])
    read = {path: found for path, found in reports.items() if isinstance(found, dict)}
    stubs = (f"{path}:{line}" for path, found in read.items() for line in found["stubs"])
    settings = {
        path: SETS.format(path, *found["settings"][0])
        for path, found in read.items()
        if found["settings"]
    }
    return Checked(settled, frozenset(stubs), settings)


def _missing(path: str, ignored: Sequence[Ignored]) -> str:
    meant = [one.path for one in ignored if f"{handing_in.MEANT} {path}" in one.reason]
    return f"{path} is missing" + (f"; there is {meant[0]}: is it meant?" if meant else "")


def _read_alone(job: Job, path: str, rules: list[dict[str, Any]]) -> ModuleReport:
    with closing(job.first_session({path: job.sources[path]})) as session:
        try:
            found: ModuleReport = session.inspect({path: rules})[path]
            return found
        except StudentFault as e:
            return e


def _unfit(path: str, found: ModuleReport, owners: list[Problem]) -> dict[str, Outcome]:
    """For one module, how the problems end that are settled by parsing it."""
    if isinstance(found, StudentFault):
        what = one_line(f"{path} cannot be read: {found.text}", 600)
        return {p.id: Outcome(status=found.status, what=what) for p in owners}
    if found["syntax"]:
        line, text = found["syntax"]
        what = f"{path}:{line}: SyntaxError: {one_line(text, 300)}"
        return {p.id: Outcome(status=Status.FAILED, what=what, facts=[PYTHON]) for p in owners}
    # a use inside a definition, or one that is not certain, costs only the tests that run it.
    certain = [use for use in found["uses"] if use["certain"] and not use["definition"]]
    first = {use["problem"]: use for use in reversed(certain)}
    return {
        id_: Outcome(
            status=Status.POLICY,
            what=f"uses {one_line(use['name'], 200)}, which this problem forbids",
            facts=[Fact("at", f"{path}:{use['line']}")],
        )
        for id_, use in first.items()
    }
