"""The levels of isolation, strongest first, and which of them this machine has."""

import sys
from collections.abc import Callable
from typing import Literal

from grader.errors import SandboxUnavailable
from grader.sandbox import bubblewrap, landlock

Isolation = Literal["bubblewrap", "landlock", "none"]
# `none` has to be asked for by name.
TRIED: dict[Isolation, Callable[[], str | None]] = {
    "bubblewrap": bubblewrap.why_not,
    "landlock": landlock.why_not,
}


def strongest() -> Isolation:
    """The strongest level that works here; says so on stderr if it is not the first.

    Raises:
        SandboxUnavailable: None works; the text says why.
    """
    reasons: list[str] = []
    for level, why_not in TRIED.items():
        if (reason := why_not()) is None:
            if reasons:
                print(
                    f"grader: {reasons[0]}; so submissions are isolated by {level}, "
                    "the second level",
                    file=sys.stderr,
                )
            return level
        reasons.append(reason)
    raise SandboxUnavailable("; ".join(reasons))
