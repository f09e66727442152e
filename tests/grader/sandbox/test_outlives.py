"""What can outlive a test or a box, or be seen by another box: SECURITY.md's table, tried out.

`states.py` has the tries. Each state is changed in one real box, and looked at in another that runs
at the same time, in the next test of the same box, and in a box that starts after both have ended.
"""

import re
import secrets
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.grader.in_the_sandbox import COURSE, MIB, NEEDS_LANDLOCK, ask, plain_box, session
from tests.grader.ordinary_user import NEEDS_ROOT, passed_by_an_ordinary_user
from tests.grader.sampling import every
from tests.grader.sandbox import states

# In one group, because each would see the states that another one changes.
pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("states")]

SEEN_AT = ("bubblewrap", "landlock")
AT_ONCE, NEXT_TEST, NEXT_BOX = "at once", "next test", "next box"
# Who may see a change, by the word for it in the table.
SEEN_BY = {
    "denied": set(),
    "no effect": set(),
    "private": set(),
    "box": {NEXT_TEST},
    "at once": {AT_ONCE},
    "stays": {AT_ONCE, NEXT_TEST, NEXT_BOX},
}
NOT_TRIED = "not tried"
# The filter denies the calls that change or show these; test_seccomp tries each at both levels.
DENIED_CALLS = {
    "times at which devices and shared files were changed",
    "cookies of sockets",
    "leases of shared files",
    "hints to the kernel about shared files",
    "signals when a file of a shared folder is read",
    "watches of shared files",
    "pages of shared files in memory, by asking for them",
    "keys of the kernel",
    "semaphores, queues and memory with a name or number",
    "where in the machine's memory a page lies",
    "priorities and cores of other processes",
    "counters of the processor",
}


class Tried(NamedTuple):
    """What was found out about a state: whether it is closed, and who has seen a change."""

    closed: bool
    seen_by: set[str]


@cache
def classes() -> dict[str, tuple[str, int | None]]:
    """By the name of a state, its class and its step."""
    found = [state for state in vars(states).values() if hasattr(state, "see")]
    return {state.__doc__: (state.__name__, getattr(state, "STEP", None)) for state in found}


@cache
def rows() -> dict[str, dict[str, str]]:
    """The rows of SECURITY.md's table, by the name of a state."""
    text = (COURSE.root / "SECURITY.md").read_text().partition("## What can outlive a box")[2]
    lines = re.findall(r"^\| (.+) \|$", text.partition("\n## ")[0], re.MULTILINE)
    head, *body = [[cell.strip() for cell in line.split("|")] for line in lines]
    return {cells[0]: dict(zip(head, cells, strict=True)) for cells in body}


def tried_at(level: str, step: int) -> dict[str, Tried]:
    """Try every `step`th state at a level."""
    chosen = dict([*classes().items()][::step])
    source = (
        Path(states.__file__)
        .read_text()
        .replace("TOKEN = 0", f"TOKEN = {secrets.randbelow(2**30)}")
    )
    looks = {}
    with plain_box(level, scratch_bytes=8 * MIB) as one, plain_box(level) as other:
        for state, (name, _) in chosen.items():
            looks[state] = looked_at(one, other, source, name)
    with plain_box(level) as later:
        for state, (name, _) in chosen.items():
            with session(later, source) as made:
                looks[state][NEXT_BOX] = looks[state][AT_ONCE][0], ask(made, name, "see")
    return {state: judged(looks[state], step) for state, (_, step) in chosen.items()}


def looked_at(one, other, source, name):
    """Before and after a change: from another box, and from the next test in the same box."""
    with session(one, source) as made:
        first = ask(made, name, "see")
    with session(one, source) as changing, session(other, source) as looking:
        before = ask(looking, name, "see")
        could = ask(changing, name, "change")
        now = ask(looking, name, "see")
    with session(one, source) as made:
        return {"could": could, AT_ONCE: (before, now), NEXT_TEST: (first, ask(made, name, "see"))}


def judged(looks, step) -> Tried:
    """Whether a state could be neither changed nor seen, and who has seen the change."""
    could, pairs = looks.pop("could"), looks

    def has_changed(before, after):
        if step is None:
            return before != after
        return None not in (before, after) and after - before >= step

    is_blind = all(look is None for pair in pairs.values() for look in pair)
    return Tried(not could or is_blind, {who for who, pair in pairs.items() if has_changed(*pair)})


def complaints(level: str, tried: dict[str, Tried]) -> list[str]:
    """Where the table says something else than what was found."""
    found = []
    for state, (closed, seen_by) in tried.items():
        word = rows()[state][level].removesuffix(" *")
        if closed and word == "denied" and not seen_by:
            continue
        may = rows()[state][level].endswith(" *") or not SEEN_BY[word]
        if not seen_by <= SEEN_BY[word] or word == "denied" or not (seen_by or may):
            found.append(f"{state}: {word}, but {closed=} {sorted(seen_by)}")
    return found


ALL_STATES = [("bubblewrap", 1), pytest.param("landlock", 1, marks=NEEDS_LANDLOCK)]


@pytest.mark.parametrize(("level", "step"), every(3, [("bubblewrap", 5), *ALL_STATES]))
def test_nobody_sees_more_than_the_table_says(level, step):
    """Where it says `denied`, nothing can be done or seen; a limit without an asterisk is real."""
    tried = tried_at(level, step)
    print(*(f"{state}: {found}" for state, found in tried.items()), sep="\n")
    assert [] == complaints(level, tried)


def test_each_state_has_a_row_and_each_row_says_who_sees_it():
    """A row without a try says so; a row that leaves something open says how much."""
    untried = {state for state, row in rows().items() if NOT_TRIED in row["bandwidth"]}
    assert {*rows()} == {*classes()} | untried | DENIED_CALLS
    assert (untried | DENIED_CALLS).isdisjoint(classes())
    assert {rows()[s][level] for s in DENIED_CALLS for level in SEEN_AT} == {"denied"}
    for state, row in rows().items():
        words = {row[level].removesuffix(" *") for level in SEEN_AT}
        assert words <= {*SEEN_BY}, state
        is_open = any(SEEN_BY[word] for word in words)
        assert bool(row["bandwidth"]) == is_open, state


@NEEDS_ROOT
@pytest.mark.proof
def test_nobody_sees_more_in_the_box_of_an_ordinary_user():
    """All boxes of an ordinary user have the same user id outside."""
    test = test_nobody_sees_more_than_the_table_says.__name__
    assert passed_by_an_ordinary_user(f"{__file__}::{test}[bubblewrap-1]").startswith("1 passed")
