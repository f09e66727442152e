"""The levels of isolation, strongest first, and the choice of the strongest that works here."""

import sys
from collections.abc import Callable
from typing import Literal

from grader.base.errors import SandboxUnavailable
from grader.sandbox import bubblewrap, landlock

Isolation = Literal["bubblewrap", "landlock", "none"]
# `none` is never chosen automatically.
TRIED: dict[Isolation, Callable[[], str | None]] = {
    "bubblewrap": bubblewrap.why_not,
    "landlock": landlock.why_not,
}


def why_not(level: Isolation) -> str | None:
    """Why a level does not work on this machine, with the fix; None if it may work."""
    return TRIED[level]() if level in TRIED else None


def strongest() -> Isolation:
    """The strongest level that works on this machine; prints a notice if it is not the first.

    Raises:
        SandboxUnavailable: No level works; the message says why.
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
