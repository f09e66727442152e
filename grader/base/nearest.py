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
    meant = did_you_mean(name, names)
    there_are = f"{'there' if not meant else ' There'} are {', '.join(names) or 'none'}"
    return f"no such {kind}{meant or '; '}{there_are}"
