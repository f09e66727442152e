"""What reading a submission settles before any of it runs: modules that are missing, are no Python, or call what they may not.

A module is parsed in the sandbox, in a process that runs none of it, because a parser can be made to crash as well.
"""

from typing import Any

from grader.course import Limits, Problem
from grader.errors import Status, StudentFault
from grader.sandbox.box import Sandbox
from grader.sandbox.client import Session
from grader.text import printable

RUNS_TEXT = {"exec", "eval", "compile", "__import__"}


def settled_without_running(
    sources: dict[str, bytes], problems: list[Problem], limits: Limits, sandbox: Sandbox
) -> dict[str, tuple[Status, str]]:
    """Problems whose tests need not run, with their status and the reason.

    Those whose module is missing or is no Python, and those whose module calls what they ask for.
    """
    missing = [p for p in problems if p.path not in sources]
    settled = {p.id: (Status.NOT_ATTEMPTED, f"{p.id}: {p.path} is not in the submission") for p in missing}
    owners: dict[str, list[Problem]] = {}
    for problem in problems:
        if problem.path in sources:
            owners.setdefault(problem.path, []).append(problem)
    forbidden = {path: sorted({name for p in those for name in p.all_forbidden}) for path, those in owners.items()}
    for path, found in _read({path: sources[path] for path in owners}, forbidden, limits, sandbox).items():
        settled |= _unfit(path, found, owners[path])
    return settled


def _read(
    sources: dict[str, bytes], forbidden: dict[str, list[str]], limits: Limits, sandbox: Sandbox
) -> dict[str, StudentFault | dict[str, Any]]:
    """What a parser says of each module: of all in one process, or of each in its own where that one did not survive."""
    session = Session(sandbox, sources, limits, seed=0, forbidden=[])
    try:
        found: dict[str, StudentFault | dict[str, Any]] = session.inspect(forbidden)
        return found
    except StudentFault as e:
        if len(sources) == 1:
            return dict.fromkeys(sources, e)
    finally:
        session.close()
    return {path: _read({path: source}, forbidden, limits, sandbox)[path] for path, source in sources.items()}


def _unfit(path: str, found: StudentFault | dict[str, Any], owners: list[Problem]) -> dict[str, tuple[Status, str]]:
    """The problems of one module that are settled by reading it."""
    if isinstance(found, StudentFault):
        return {p.id: (found.status, f"{p.id}: {path} cannot be read: {found.text}") for p in owners}
    if found["syntax"]:
        line, text = found["syntax"]
        return {p.id: (Status.FAILED, f"{p.id}: {path}:{line}: SyntaxError: {printable(text, 300)}") for p in owners}
    broken: dict[str, tuple[Status, str]] = {}
    for name, line, definition in found["uses"]:
        home = [p for p in owners if definition in p.functions] or owners
        for p in home:
            if p.forbids(name, definition) or (p.forbidden and name in RUNS_TEXT):
                text = f"{p.id}: calls {name}, which this problem may not\n  at        {path}:{line}"
                broken.setdefault(p.id, (Status.POLICY, text))
    return broken
