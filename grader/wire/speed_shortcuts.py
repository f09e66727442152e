"""The shortcuts that only make a grade faster, and the switch that turns them off.

Each gives the same results as the plain way. Most of them use names that torch or CPython do not
document, so a new version of these may break them. GRADER_PLAIN=1 in the environment turns all of
them off, and GRADER_PLAIN=compiler,exit only two, for this process and all that it starts.
benchmarks/README.md says what each one saves.
"""

import os

SWITCH = "GRADER_PLAIN"
SHORTCUTS = {
    "compiler": "torch's compiler is imported only if something needs it",
    "sharing": "tests that leave nothing behind share a process",
    "exit": "a command ends without freeing what it imported",
}


def is_off(shortcut: str) -> bool:
    """Whether one of SHORTCUTS is turned off."""
    switched = os.environ.get(SWITCH, "")
    return switched == "1" or shortcut in switched.split(",")


def environment() -> dict[str, str]:
    """The switch as it is set, for a process that gets an environment of its own."""
    return {SWITCH: os.environ[SWITCH]} if SWITCH in os.environ else {}
