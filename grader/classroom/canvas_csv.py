"""A class's points as a CSV file for Canvas' gradebook.

Canvas creates a new assignment for a column whose title it does not know. So `canvas` writes only
columns whose title ends with the assignment's id.
"""

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import msgspec

from grader.base import files
from grader.base.errors import UsageError
from grader.classroom import spreadsheet_csv
from grader.classroom.class_records import Standing, State, Student, called
from grader.classroom.roster import DAMAGED
from grader.course.late_policy import Policy
from grader.course.removable.canvas_rules import CanvasRules
from grader.report.shared_wording import half_up, number
from kit.safe_text import one_line

STUDENT, SECTION, POINTS_POSSIBLE = "Student", "Section", "    Points Possible"
# The columns by which Canvas identifies a student, in the order in which it tries them.
ID, SIS_ID, LOGIN = IDENTITIES = ("ID", "SIS User ID", "SIS Login ID")
DECIMAL = re.compile(r"\d+\.\d+")
TITLE = re.compile(r"(.*) \((\d+)\)", re.DOTALL)


def for_canvas(
    standings: Sequence[Standing], rules: Policy, possible: float | None
) -> list[Standing]:
    """The points as Canvas gets them, by the policy; a UsageError if it has to say more."""
    most = max((one.max_score for one in standings), default=0.0)
    ours = rules.of(CanvasRules)
    to = ours.canvas_points or most
    if (
        possible is not None
        and abs(possible - to) > spreadsheet_csv.SMALL
        and abs(most - ours.canvas_points) > spreadsheet_csv.SMALL
    ):
        raise UsageError(
            f"Canvas' assignment is out of {number(possible)} points, ours out of {number(to)}: "
            f"write canvas_points = {number(possible)} into the policy to scale ours, or "
            f"canvas_points = {number(most)} to send them as they are, or correct Canvas"
        )
    unit, factor = 10.0**ours.canvas_decimals, to / most if most else 1.0

    def scaled(points: float) -> float:
        return half_up(round(points * factor * unit, 6)) / unit

    return [
        msgspec.structs.replace(
            one, max_score=to, points=None if one.points is None else scaled(one.points)
        )
        for one in standings
    ]


@dataclass(frozen=True)
class CanvasTable:
    text: str  # the CSV to import
    notes: list[str]  # sentences about what a person should check


def canvas(
    standings: Sequence[Standing],
    rules: Policy,
    *,
    exported: str | None,
    former: Mapping[str, Sequence[str]] | None = None,
) -> CanvasTable:
    """The points as a file that Canvas imports into its gradebook.

    Only graded students have a score; all other cells are empty, which means no score. All of the
    text of an exported file is kept except for the column of the assignment, which is found by its
    number in the policy or else by its title. `former` has the former ids of each student.

    Raises:
        UsageError: The assignment's column is unknown, so Canvas would create a new assignment; or
            `exported` is not a gradebook of Canvas.
    """
    if exported is not None:
        return _filled_in(standings, rules, exported, former or {})
    number_there = rules.of(CanvasRules).canvas_id
    if not number_there:
        raise UsageError(
            "--canvas: Canvas would create a new assignment; write canvas_id, the assignment's "
            "number in Canvas, into the policy, or add --canvas-export with a gradebook that "
            "Canvas exported"
        )
    standings = for_canvas(standings, rules, None)
    listed = [one for one in standings if one.student.listed]
    most = max((one.max_score for one in standings), default=0.0)
    column = f"{spreadsheet_csv.LINE_ENDS.sub(' ', rules.title)} ({number_there})"
    header = [STUDENT, *IDENTITIES, SECTION, column]
    rows = [_canvas_row(one) for one in listed]
    points_possible = [POINTS_POSSIBLE, "", "", "", "", spreadsheet_csv.decimal(most)]
    notes = [
        f"{called(one.student)} is not in the roster and was left out"
        for one in standings
        if not one.student.listed
    ]
    if not all(_is_from_canvas(one.student) for one in listed):
        notes.insert(0, f"the roster's ids are in the column {SIS_ID}: compare them with Canvas'")
    return CanvasTable(spreadsheet_csv.csv_of([header, points_possible, *rows]), notes)


def _canvas_row(one: Standing) -> list[str]:
    """A student's row; an id that is not Canvas' own is probably the SIS id."""
    student = one.student
    known = {name: student.columns[name] for name in IDENTITIES if name in student.columns}
    if (user := canvas_user(student)) is not None:
        known.setdefault(ID, str(user))
    if not _is_from_canvas(student):
        known.setdefault(SIS_ID, student.id)
    known.setdefault(LOGIN, student.email)
    cells = [student.name, *(known.get(name, "") for name in IDENTITIES), student.section]
    return [*map(spreadsheet_csv.safe_text, cells), _score(one)]


def canvas_user(student: Student) -> int | None:
    """The number in Canvas, from a column such as canvas_id or an exported roster, or None."""
    names = {name: re.sub("[^a-z]", "", name.casefold()) for name in student.columns}
    named = [name for name in names if names[name] in ("canvasid", "canvasuserid")]
    found = student.id if _is_from_canvas(student) else ""
    found = student.columns[named[0]] if named else found
    return int(found) if re.fullmatch(r"\d{1,18}", found, re.ASCII) else None


def _is_from_canvas(student: Student) -> bool:
    """Whether the roster has a column that only an export of Canvas' gradebook has."""
    return SIS_ID in student.columns or any(map(TITLE.fullmatch, student.columns))


def _score(one: Standing) -> str:
    return spreadsheet_csv.decimal(one.points) if one.state is State.GRADED else ""


def _filled_in(
    standings: Sequence[Standing], rules: Policy, exported: str, former: Mapping[str, Sequence[str]]
) -> CanvasTable:
    mark = spreadsheet_csv.BOM if exported.startswith(spreadsheet_csv.BOM) else ""
    text = exported.removeprefix(spreadsheet_csv.BOM)
    delimiter = _delimiter(text)
    rows = [row for _, row in files.table_rows(text, "--canvas-export", delimiter)]
    column = _column(rows[0], rules.title, rules.of(CanvasRules).canvas_id)
    possible = next((row[column] for row in rows[1:] if row[0] == POINTS_POSSIBLE), "")
    has_commas = delimiter == ";" and not any(DECIMAL.fullmatch(c) for row in rows for c in row)
    possible = possible.replace(",", ".") if has_commas else possible
    known_points = float(possible) if spreadsheet_csv.NUMBER.fullmatch(possible) else None
    standings = for_canvas(standings, rules, known_points)
    found, notes = _matches(rows, [one.student for one in standings], former)
    for one in standings:
        place = found.get(one.student.id)
        if place is None:
            notes.append(f"{called(one.student)} is not in the file from Canvas")
        else:
            notes += _fill(rows[place], column, one, "," if has_commas else ".")
    line_end = "\r\n" if "\r\n" in text else "\n"
    return CanvasTable(mark + spreadsheet_csv.csv_of(rows, delimiter, line_end), notes)


def _delimiter(text: str) -> str:
    """The delimiter: a comma, or a semicolon in some of Canvas' languages."""
    if start := re.match(r'"?Student"?([,;\t])"?ID"?\1', text):
        return start[1]
    raise UsageError(
        "--canvas-export: expected a gradebook that Canvas exported, with the first columns "
        f"Student and ID, found {one_line(text.split(chr(10), 1)[0], 100)}"
    )


def _column(header: list[str], title: str, number_there: int) -> int:
    """The place of the assignment's column, by its number in Canvas or else by its title."""
    places = [
        place
        for place, name in enumerate(header)
        if (part := TITLE.fullmatch(name.strip()))
        and (int(part[2]) == number_there if number_there else part[1].strip() == title.strip())
    ]
    if len(places) == 1:
        return places[0]
    of = f"id {number_there}" if number_there else f"title {one_line(title, 200)}"
    if places:
        raise UsageError(
            f"the file from Canvas has {len(places)} columns for an assignment with the {of}: "
            "write canvas_id, the assignment's number in Canvas, into the policy"
        )
    raise UsageError(
        f"the file from Canvas has no column for an assignment with the {of}: Canvas would create "
        "a new assignment"
    )


def _fill(row: list[str], column: int, one: Standing, mark: str) -> list[str]:
    """Write a student's points, unless excused in Canvas; return notes about lost points."""
    row += [""] * (column + 1 - len(row))
    before = row[column].strip()
    if before.upper() == "EX":
        return [f"{called(one.student)} is excused in Canvas and stays excused"]
    row[column] = _score(one).replace(".", mark)
    if before and not row[column]:
        had = f"had {one_line(before, 40)} points in Canvas and has no score now"
        return [f"{called(one.student)} {had} ({one.state.value})"]
    return []


def _matches(
    rows: list[list[str]], students: Sequence[Student], former: Mapping[str, Sequence[str]]
) -> tuple[dict[str, int], list[str]]:
    """The place of each student's row, and notes on rows of two students or of one twice."""
    columns = [(name, rows[0].index(name)) for name in IDENTITIES if name in rows[0]]
    known = _Known(students, former)
    places: dict[str, list[int]] = {}
    notes = []
    for place, row in enumerate(rows[1:], start=1):
        cells = [(name, row[at]) for name, at in columns if at < len(row)]
        if any(DAMAGED.fullmatch(cell.strip()) for _, cell in cells):
            raise UsageError(
                f"--canvas-export:{place + 1}: a spreadsheet damaged the id; export again"
            )
        owners = list(dict.fromkeys(filter(None, (known.owner(*cell) for cell in cells))))
        if len(owners) > 1:
            who = ", ".join(one_line(owner, 100) for owner in owners)
            notes.append(f"row {place + 1} of the file from Canvas matches several students: {who}")
        elif owners:
            places.setdefault(owners[0], []).append(place)
    for owner, found in places.items():
        if len(found) > 1:
            lines = ", ".join(str(place + 1) for place in found)
            notes.append(f"rows {lines} of the file from Canvas all match {one_line(owner, 100)}")
    return {owner: found[0] for owner, found in places.items() if len(found) == 1}, notes


class _Known:
    """Finds the student whom an identity in Canvas belongs to.

    A match with the roster's column of the same name is sure; if the roster has no such column, a
    match with the student's id or address is. Other columns of the roster are tried only for the
    SIS columns and only without a sure match: a small number, such as a seat, could be any ID.
    """

    def __init__(self, students: Sequence[Student], former: Mapping[str, Sequence[str]]) -> None:
        self._sure = defaultdict[tuple[str, str], set[str]](set)
        self._likely = defaultdict[str, set[str]](set)
        for student in students:
            user = canvas_user(student)
            for name in IDENTITIES:
                other = (student.id, student.email, *former.get(student.id, ()))
                if name == ID and user is not None:
                    other = (str(user),)
                for value in (student.columns[name],) if name in student.columns else other:
                    self._sure[name, _key(value)].add(student.id)
            for value in student.columns.values():
                self._likely[_key(value)].add(student.id)

    def owner(self, column: str, value: str) -> str | None:
        """The id of the only student with this identity, or None."""
        key = _key(value)
        found = self._sure.get((column, key))
        if found is None and column != ID:
            found = self._likely.get(key)
        return next(iter(found)) if key and found and len(found) == 1 else None


def _key(value: str) -> str:
    return value.strip().casefold()
