"""The name that a person probably meant."""

import difflib
from collections.abc import Iterable


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """The end of a sentence, as in `; did you mean adamw?`; empty if no name is near."""
    near = difflib.get_close_matches(name, list(known), 1)
    return f"; did you mean {near[0]}?" if near else ""


def no_such(kind: str, name: str, known: Iterable[str]) -> str:
    """Say that there is no problem, test or comment of a name, and what there is."""
    names = list(known)
    are = "is" if len(names) == 1 else "are"
    listed = ", ".join(names) or "none"
    if not (meant := did_you_mean(name, names)):
        return f"no such {kind}; there {are} {listed}"
    return f"no such {kind}{meant}" + (f" There {are} {listed}" if names[1:] else "")
