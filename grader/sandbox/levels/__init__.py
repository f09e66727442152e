"""The levels of isolation, strongest first, and the choice of the strongest that works here."""

import sys

from grader.base.errors import SandboxUnavailable
from grader.sandbox.levels.bubblewrap import BubblewrapLevel
from grader.sandbox.levels.landlock import LandlockLevel
from grader.sandbox.levels.level import Isolation, Level
from grader.sandbox.levels.none import NoIsolation

__all__ = ["LEVELS", "TRIED", "Isolation", "Level", "strongest"]

LEVELS: dict[Isolation, Level] = {
    level.name: level for level in (BubblewrapLevel(), LandlockLevel(), NoIsolation())
}
# `none` is never chosen automatically.
TRIED = {name: level for name, level in LEVELS.items() if level.is_isolated}


def strongest() -> Isolation:
    """The strongest level that works on this machine; prints a notice if it is not the first.

    Raises:
        SandboxUnavailable: No level works; the message says why.
    """
    reasons: list[str] = []
    for name, level in TRIED.items():
        if (reason := level.why_not()) is None:
            if reasons:
                print(
                    f"grader: {reasons[0]}; so submissions are isolated by {name}, "
                    "the second level",
                    file=sys.stderr,
                )
            return name
        reasons.append(reason)
    raise SandboxUnavailable("; ".join(reasons))
