"""The regions of a reference module that are solutions: the lines between two marks."""

import re

BEGIN = re.compile(r"( *)# BEGIN SOLUTION\((\w+)\)")
END = re.compile(r" *# END SOLUTION")
MARK = re.compile(r"(BEGIN|END) SOLUTION")


def lines_of(reference: str, problem_id: str | None = None) -> dict[int, str]:
    """The lines of a reference that its stub leaves out, by line number.

    Args:
        reference: The source of the reference module.
        problem_id: The problem whose lines are wanted; None for those of all problems.
    """
    found: dict[int, str] = {}
    inside = False
    for number, line in enumerate(reference.splitlines(), 1):
        if MARK.search(line):
            begin = BEGIN.fullmatch(line)
            inside = begin is not None and problem_id in (None, begin[2])
        elif inside:
            found[number] = line
    return found
