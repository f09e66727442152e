"""The course's rules for a class: deadlines, late penalties, and which attempt counts.

They are in a separate file, `policy.toml` in the course's folder, so that a new deadline does not
change the hash of the suite. Without the file nothing is late, and the latest attempt counts.
"""

import math
import re
from contextlib import suppress
from datetime import UTC, date, datetime, time, timedelta
from pathlib import Path
from typing import Any, ClassVar, Literal, TypeVar, get_args
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import msgspec

from grader.base import files, removable
from grader.base.errors import UsageError, did_you_mean
from grader.course.problems_toml import WEB_ADDRESS
from kit.safe_text import one_line

DAY = 86_400
DAY_ALONE = re.compile(r"\d{4}-?\d\d-?\d\d", re.ASCII)
END_OF_DAY = time(23, 59, 59)
MOST_BYTES = 2**20  # of the file
MOST = 1e9  # more than any sensible number in the file
RANGES: dict[str, tuple[float, float]] = {
    **dict.fromkeys(("per_cent_a_day", "grace_minutes", "late_days"), (0, MOST)),
    "cap": (0, 100),
    "gradescope_minutes": (3, MOST),
}

Visibility = Literal["visible", "hidden", "after_due_date", "after_published"]


class Shows(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What Gradescope shows to students, and when."""

    results: Visibility = "visible"  # everything, including the score
    # The entries of the tests, if they are shown at another time than the rest; None if not. While
    # they wait for a time, Gradescope hides the score, too.
    tests: Visibility | None = None
    reasons: bool = True  # whether an entry says why its tests failed; otherwise it only names them
    # The grader's own output, which contains its report and facts about the machine.
    printed: Visibility = "hidden"
    # Whether a leaderboard gets the points. Gradescope shows it with the nicknames that students
    # choose, if the assignment has leaderboards.
    leaderboard: bool = False


class PlatformRules(msgspec.Struct, frozen=True):
    """The keys of [policy] for one platform, which a module of `removable/` has."""

    EXPECTED: ClassVar[dict[Any, str]] = {}  # what each type of a key expects, in words

    def check(self, path: Path) -> None:
        """Check the values; raise a UsageError if one is wrong."""


Rules = TypeVar("Rules", bound=PlatformRules)


class Policy(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The table [policy]."""

    # "latest": the latest attempt without a charged late day counts or, if there is none, the first
    # attempt. "best": the attempt with the most points after the late penalty counts.
    counts: Literal["latest", "best"] = "latest"
    # The penalty for each day that begins after the deadline, in per cent of the score.
    per_cent_a_day: float = 0.0
    grace_minutes: float = 0.0  # minutes after the deadline in which an attempt is not yet late
    # The number of late days without a penalty: in this assignment or, with late_days_file, in the
    # whole course.
    late_days: int = 0
    # A CSV file of all assignments with the columns student, assignment and days, which `grader
    # export --late-days` writes. Days that a student used in other assignments are no longer free.
    # Its path is relative to the policy's.
    late_days_file: str = ""
    # What the file says of other assignments: days for each student.
    late_days_used: dict[str, int] = {}
    # a name such as "America/Los_Angeles". Deadlines without an offset are in this zone, and a late
    # day ends at the deadline's clock time, so that it has 23 or 25 hours when the clocks change.
    # Without it, a late day has 24 hours.
    time_zone: str = ""
    cap: float = 100.0  # the largest penalty for lateness, in per cent
    title: str = "Assignment"  # the assignment's title
    # Where students find the handout's pages, such as https://course.example/handout; reports link
    # to its sections. Empty for none.
    handout_url: str = ""
    # The deadline of each section; "default" is that of all others.
    deadlines: dict[str, datetime] = {}
    gradescope: Shows = Shows()  # the table [policy.gradescope]: what Gradescope shows to students
    # The time limit in Gradescope's autograder settings, in minutes.
    gradescope_minutes: float = 10.0
    more: dict[str, Any] = {}  # the keys for other platforms, which `of` reads

    def of(self, kind: type[Rules]) -> Rules:
        """The keys for a platform."""
        names = kind.__struct_fields__
        return msgspec.convert({n: v for n, v in self.more.items() if n in names}, kind)

    def deadline(self, section: str, extension: datetime | None) -> datetime | None:
        """When a student's work is due; an extension never shortens the time."""
        usual = self.deadlines.get(section, self.deadlines.get("default"))
        if extension is None or usual is None:
            return usual
        return max(usual, extension)

    def local(self, at: datetime) -> datetime:
        """The same time in the course's zone; without one, or beyond Python's years, as it is."""
        with suppress(OverflowError):
            return at.astimezone(ZoneInfo(self.time_zone)) if self.time_zone else at
        return at

    def days_begun(self, submitted_at: datetime | None, deadline: datetime | None) -> int:
        """The days that have begun since the deadline; 0 in the grace period."""
        if submitted_at is None or deadline is None:
            return 0
        late = submitted_at - deadline
        if late <= timedelta(minutes=self.grace_minutes):
            return 0
        if self.time_zone:
            handed_in, due = (self.local(t).replace(tzinfo=None) for t in (submitted_at, deadline))
            late = handed_in - due
        return max(1, math.ceil(late.total_seconds() / DAY))

    def free_days(self, student: str) -> int:
        """The late days without a penalty that a student still has for this assignment."""
        return max(0, self.late_days - self.late_days_used.get(student, 0))

    def days_late(
        self, submitted_at: datetime | None, deadline: datetime | None, student: str = ""
    ) -> int:
        """The days that have begun since the deadline, minus the days without a penalty."""
        return max(0, self.days_begun(submitted_at, deadline) - self.free_days(student))

    def penalty(self, days: int) -> float:
        """The penalty for this number of late days, in per cent of the score."""
        return min(self.cap, self.per_cent_a_day * days)


def kept(points: float, penalty: float) -> float:
    """Points, or a change in points, after a penalty in per cent is deducted."""
    return points * (1 - penalty / 100)


def load(path: Path, *, needed: bool = False) -> Policy:
    """Read the policy; without the file, unless it is needed, the default rules.

    Raises:
        UsageError: It is wrong; the message says where, what was expected and what was found.
    """
    try:
        if not needed and not path.exists():
            return Policy()
        listed = files.toml_of(files.read(path, most=MOST_BYTES).decode())
    except ValueError as e:
        raise UsageError(f"{path} is not TOML: {e}") from None
    if unknown := sorted(listed.keys() - {"policy"}):
        is_table = isinstance(listed[unknown[0]], dict)
        found = f"[{unknown[0]}]" if is_table else f"the key {unknown[0]} outside it"
        raise UsageError(f"{path}: expected only the table [policy], found {one_line(found, 100)}")
    rules = listed.get("policy", {})
    if not isinstance(rules, dict):
        found = one_line(repr(rules), 100)
        raise UsageError(f"{path}: expected the table [policy], found policy = {found}")
    _check_keys(path, "policy", rules, Policy)
    rules = {**rules, "deadlines": _deadlines(path, rules)}
    try:
        policy = from_keys(rules)
    except msgspec.ValidationError as e:  # a type that no sentence of ours names
        raise UsageError(f"{path}: [policy]: {e}") from None
    check(path, policy)
    if policy.late_days_file:
        bank = path.parent / policy.late_days_file
        if not bank.parent.is_dir():
            raise UsageError(
                f"{path}: late_days_file in [policy] is {one_line(policy.late_days_file, 100)}; "
                f"there is no folder {bank.parent}"
            )
        used = used_elsewhere(bank, policy.title)
        return msgspec.structs.replace(policy, late_days_used=used)
    return policy


def platforms() -> list[type[PlatformRules]]:
    """The rules for platforms that can be removed."""
    return list(removable.objects("grader.course.removable", "RULES").values())


def from_keys(keys: dict[str, Any]) -> Policy:
    """The policy with these keys of [policy].

    Raises:
        msgspec.ValidationError: A value has another type than its key.
    """
    own = {name: value for name, value in keys.items() if name in Policy.__struct_fields__}
    others = {name: value for name, value in keys.items() if name not in own}
    return msgspec.convert({**own, "more": others}, Policy)


def as_keys(policy: Policy) -> dict[str, Any]:
    """The keys of [policy], as `from_keys` reads them."""
    keys: dict[str, Any] = msgspec.to_builtins(policy)
    keys |= keys.pop("more")
    return keys


# What each type of a key expects, in words.
EXPECTED: dict[Any, str] = {
    int: "a whole number",
    float: "a number",
    str: "text in quotes",
    bool: "true or false",
    Literal["latest", "best"]: '"latest" or "best"',
    Visibility: '"visible", "hidden", "after_due_date" or "after_published"',
    Visibility | None: '"visible", "hidden", "after_due_date" or "after_published"',
    dict[str, datetime]: "a table with a time for each section",
    Shows: "a table",
}


def _check_keys(path: Path, table: str, rules: dict[str, Any], kind: type[msgspec.Struct]) -> None:
    """Check each key of a table, and the type of its value; also in the tables inside."""
    fields, expected = [*msgspec.structs.fields(kind)], EXPECTED
    for one in platforms():
        expected = expected | one.EXPECTED
        fields += msgspec.structs.fields(one) if kind is Policy else ()
    kinds = {f.name: f.type for f in fields if f.name not in ("late_days_used", "more")}
    for field in fields:
        if field.required and field.name not in rules:
            lacks = f"[{table}] lacks the key {field.name}"
            raise UsageError(f"{path}: {lacks}; expected {expected[field.type]}")
    for key, value in rules.items():
        if key not in kinds:
            meant = did_you_mean(key, kinds)
            can_have = f"{' It' if meant else '; it'} can have {', '.join(kinds)}"
            raise UsageError(f"{path}: [{table}] has no key {one_line(key, 50)}{meant}{can_have}")
        inside = [k for k in (kinds[key], *get_args(kinds[key])) if hasattr(k, "__struct_fields__")]
        if isinstance(value, dict) and inside:
            _check_keys(path, f"{table}.{key}", value, inside[0])
        elif not isinstance(value, dict) or key != "deadlines":  # whose values are read one by one
            _check_value(path, f"{key} in [{table}]", value, kinds[key], expected)


def _check_value(path: Path, what: str, value: Any, kind: Any, expected: dict[Any, str]) -> None:
    try:
        msgspec.convert(value, kind)
    except msgspec.ValidationError:
        found = one_line(repr(value), 100)
        raise UsageError(f"{path}: {what} is {found}; expected {expected[kind]}") from None


def _deadlines(path: Path, rules: dict[str, Any]) -> dict[str, datetime]:
    """The deadlines, each with an offset."""
    zone, found = _zone(path, rules.get("time_zone", "")), {}
    for section, when_due in rules.get("deadlines", {}).items():
        what = _the_deadline(path, section)
        if isinstance(when_due, date) and not isinstance(when_due, datetime):
            when_due = datetime.combine(when_due, END_OF_DAY)
        if not isinstance(when_due, datetime):
            raise UsageError(
                f"{what} is {one_line(repr(when_due), 100)}; expected a time without quotes, such "
                "as 2026-10-02T23:59:00-07:00"
            )
        if when_due.tzinfo is None and zone:
            when_due = _in_zone(when_due, zone, what)
        found[section] = when_due
    return found


def _zone(path: Path, name: str) -> ZoneInfo | None:
    try:
        return ZoneInfo(name) if name else None
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise UsageError(
            f"{path}: time_zone in [policy] is {one_line(name, 100)}; expected the name of a time "
            "zone, such as America/Los_Angeles or Europe/Berlin"
        ) from None


def _the_deadline(path: Path, section: str) -> str:
    return f"{path}: the deadline {one_line(section, 50)} in [policy.deadlines]"


def _in_zone(naive: datetime, zone: ZoneInfo, what: str) -> datetime:
    """A clock time in a zone, which must exist there once."""
    _check_year(naive, what)
    found = naive.replace(tzinfo=zone)
    changes = found.utcoffset() != found.replace(fold=1).utcoffset()
    if changes:
        exists = found.astimezone(UTC).astimezone(zone).replace(tzinfo=None) == naive
        how = "occurs twice" if exists else "does not exist"
        raise UsageError(
            f"{what} {how}, because the clocks of {zone.key} change then: choose another time, or "
            "write its offset, as in 2026-10-02T23:59:00-07:00"
        )
    return found.astimezone(UTC)


def check(path: Path, policy: Policy) -> None:
    """Check the values of a policy.

    Raises:
        UsageError: One is out of its range, or is no address.
    """
    check_numbers(path, policy, RANGES)
    _zone(path, policy.time_zone)
    for section, when_due in policy.deadlines.items():
        _check_time(when_due, _the_deadline(path, section))
    check_address(path, policy, "handout_url", "https://course.example/handout")
    shows = policy.gradescope
    if shows.leaderboard and {shows.results, shows.tests or shows.results} != {"visible"}:
        raise UsageError(
            f"{path}: [policy.gradescope]: a leaderboard would show points that students do not "
            "see yet; remove it, or results and tests"
        )
    for kind in platforms():
        policy.of(kind).check(path)


def check_numbers(path: Path, rules: object, ranges: dict[str, tuple[float, float]]) -> None:
    """Check that numbers of the rules are in their ranges.

    Raises:
        UsageError: One is not.
    """
    for name, (least, most) in ranges.items():
        number = getattr(rules, name)
        if not least <= number <= most:
            raise UsageError(
                f"{path}: {name} in [policy] is {number:g}; expected {least:g} or more, and at "
                f"most {most:,.0f}"
            )


def check_address(path: Path, rules: object, name: str, example: str) -> None:
    """Check that a rule is empty or a web address.

    Raises:
        UsageError: It is not.
    """
    address = getattr(rules, name)
    if address and not WEB_ADDRESS.fullmatch(address):
        raise UsageError(
            f"{path}: {name} in [policy] is {one_line(address, 100)}; expected an address such as "
            f"{example}"
        )


def when(text: str, *, what: str, zone: str = "", of_a_day: time = END_OF_DAY) -> datetime:
    """Read a time that a person wrote; a date alone means its end.

    Args:
        what: The name of the text.
        zone: The zone of a time without an offset; empty if it needs one.
        of_a_day: The time that a date alone means.

    Raises:
        UsageError: It is not a time, or has no zone.
    """
    try:
        found = datetime.fromisoformat(text)
        if DAY_ALONE.fullmatch(text):
            found = datetime.combine(found, of_a_day)
    except ValueError:
        raise UsageError(
            f"{what} {text}: expected a time such as 2026-10-03T23:59:00-07:00"
        ) from None
    if found.tzinfo is None and zone:
        found = _in_zone(found, ZoneInfo(zone), f"{what} {text}")
    _check_time(found, f"{what} {text}")
    return found


def _check_time(found: datetime, what: str) -> None:
    if found.tzinfo is None:
        raise UsageError(
            f"{what} has no time zone: add its offset, as in {found.isoformat()}-07:00 for Los "
            "Angeles in summer, or Z for UTC, or write time_zone into the policy"
        )
    _check_year(found, what)


def _check_year(found: datetime, what: str) -> None:
    """A time at the end of the years that Python knows cannot be moved to another zone."""
    if not 2000 <= found.year < 3000:
        raise UsageError(f"{what} is in the year {found.year}; expected 2000 or later")


# --- late days of a whole course ------------------------------------------------------------------


LATE_DAYS_COLUMNS = ["student", "assignment", "days"]


def late_days_in(path: Path) -> dict[tuple[str, str], int]:
    """The days in a file, by student and assignment; empty without the file.

    Every assignment writes its own rows and reads those of the others, so that the order in which
    assignments are graded again does not matter.

    Raises:
        UsageError: It cannot be read, or a row is wrong.
    """
    if not path.exists():
        return {}
    rows = files.table_rows(files.table_text(path), str(path))
    _, header = next(rows, (1, []))
    if [cell.strip().lower() for cell in header] != LATE_DAYS_COLUMNS:
        columns, found_there = ", ".join(LATE_DAYS_COLUMNS), one_line(", ".join(header), 100)
        raise UsageError(
            f"{path}:1: expected a file of late days with the columns {columns}, found "
            f"{found_there or 'an empty file'}"
        )
    found: dict[tuple[str, str], int] = {}
    for line, row in rows:
        if not any(cell.strip() for cell in row):
            continue
        if len(row) != len(LATE_DAYS_COLUMNS) or not re.fullmatch(r"\s*\d{1,9}\s*", row[2]):
            raise UsageError(
                f"{path}:{line}: expected a student, an assignment and a whole number of days, "
                f"found {one_line(', '.join(row), 100)}"
            )
        # An apostrophe keeps a spreadsheet from running a text as a formula.
        key = row[0].strip().removeprefix("'"), row[1].strip().removeprefix("'")
        if key in found:
            raise UsageError(f"{path}:{line}: {' has a second row for '.join(key)}")
        found[key] = int(row[2])
    return found


def used_elsewhere(path: Path, title: str) -> dict[str, int]:
    """The late days that each student used in assignments of other titles."""
    used: dict[str, int] = {}
    for (student, assignment), days in late_days_in(path).items():
        if assignment != title:
            used[student] = used.get(student, 0) + days
    return used
