"""Programs of this machine that a course's submissions may start; one module for each.

A course names them in problems.toml, as in `tools = ["g++"]`. Each has the name of its Debian
package. The box then shows their files, which no process in it can change.
"""

from collections.abc import Callable, Iterable

from grader.base.errors import CourseFault, MachineFault
from grader.tools import gxx
from grader.tools.tool import Tool

FIND: dict[str, Callable[[], Tool | None]] = {"g++": gxx.find}


def find(names: Iterable[str]) -> tuple[Tool, ...]:
    """The tools of these names.

    Raises:
        CourseFault: No tool has such a name.
        MachineFault: One is not installed here, or does not work.
    """
    return tuple(map(_found, names))


def _found(name: str) -> Tool:
    if name not in FIND:
        raise CourseFault(f'problems.toml: tools: expected one of {", ".join(FIND)}; got "{name}"')
    if tool := FIND[name]():
        return tool
    raise MachineFault(
        f"submissions to this course need {name}, and none that works is installed: "
        f"apt-get install {name}"
    )
