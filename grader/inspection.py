"""What reading a submission settles before any of it runs: modules that are missing, are no Python, or call what they may not.

A module is parsed in the sandbox, in a process that runs none of it, because a parser can be made to crash as well.
"""

from collections.abc import Callable
from typing import Any

from grader.course import Limits, Problem
from grader.errors import Status, StudentFault
from grader.sandbox.box import Sandbox
from grader.sandbox.client import Session
from grader.text import printable


def settled_without_running(
    sources: dict[str, bytes],
    problems: list[Problem],
    limits: Limits,
    sandbox: Sandbox,
    open_session: Callable[..., Any] = Session,
) -> dict[str, tuple[Status, str]]:
    """Problems whose tests need not run, with their status and the reason.

    Those whose module is missing or is no Python, and those that are certain to use what they ask for.
    """
    missing = [p for p in problems if p.path not in sources]
    settled = {p.id: (Status.NOT_ATTEMPTED, f"{p.id}: {p.path} is not in the submission") for p in missing}
    owners: dict[str, list[Problem]] = {}
    for problem in problems:
        if problem.path in sources:
            owners.setdefault(problem.path, []).append(problem)
    for path, found in _read({path: sources[path] for path in owners}, owners, limits, sandbox, open_session).items():
        settled |= _unfit(path, found, owners[path])
    return settled


def _read(
    sources: dict[str, bytes],
    owners: dict[str, list[Problem]],
    limits: Limits,
    sandbox: Sandbox,
    open_session: Callable[..., Any],
) -> dict[str, StudentFault | dict[str, Any]]:
    """What a parser says of each module: of all in one process, or of each in its own where that one did not survive."""
    session = open_session(sandbox, sources, limits, seed=0, forbidden=[])
    try:
        rules = {path: [problem.rules for problem in owners[path]] for path in sources}
        found: dict[str, StudentFault | dict[str, Any]] = session.inspect(rules)
        return found
    except StudentFault as e:
        if len(sources) == 1:
            return dict.fromkeys(sources, e)
    finally:
        session.close()
    return {path: _read({path: source}, owners, limits, sandbox, open_session)[path] for path, source in sources.items()}


def _unfit(path: str, found: StudentFault | dict[str, Any], owners: list[Problem]) -> dict[str, tuple[Status, str]]:
    """The problems of one module that are settled by reading it."""
    if isinstance(found, StudentFault):
        return {p.id: (found.status, f"{p.id}: {path} cannot be read: {found.text}") for p in owners}
    if found["syntax"]:
        line, text = found["syntax"]
        return {p.id: (Status.FAILED, f"{p.id}: {path}:{line}: SyntaxError: {printable(text, 300)}") for p in owners}
    certain = [use for use in found["uses"] if use["certain"] and not use["definition"]]  # others cost what they run in
    first = {use["problem"]: use for use in reversed(certain)}
    return {p.id: (Status.POLICY, _told(first[p.id], path)) for p in owners if p.id in first}


def _told(use: dict[str, Any], path: str) -> str:
    """What the report says of a forbidden use."""
    what = f"{use['problem']}: uses {printable(use['name'], 200)}, which this problem has to do without"
    return f"{what}\n  at        {path}:{use['line']}"
