"""Read the list of a class, and find out whose work each submission is.

The list is a CSV file with a header: one that a person wrote, or an export of Canvas' gradebook or
Gradescope's roster. Work of somebody who is not on the list is graded all the same.
"""

import codecs
import csv
import io
import itertools
import os
import re
import string
import unicodedata
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from grader.classroom.records import HandedIn, Student
from grader.errors import UsageError
from grader.printable import one_line

MAX_BYTES = 64 * 2**20
MAX_SHOWN = 300
DELIMITERS = ",;\t"

# What a column may be called, best first; only letters and digits count.
ID = (
    "id", "studentid", "studentnumber", "sid", "sisuserid", "sisid", "userid", "username",
    "sisloginid", "loginid", "login", "netid",
)  # fmt: skip
NAME = ("name", "student", "fullname", "studentname")
FIRST_NAME = ("firstname", "givenname", "first")
LAST_NAME = ("lastname", "surname", "familyname", "last")
EMAIL = ("email", "emailaddress", "mail")
SECTION = ("section", "sections")
KNOWN = {*ID, *NAME, *FIRST_NAME, *LAST_NAME, *EMAIL, *SECTION}

# Columns of a gradebook whose values identify nobody, such as "Homework 2 (4711)".
POINTS = re.compile(r"\(\d+\)$|score|grade|points", re.IGNORECASE)


@dataclass(frozen=True)
class Assigned:
    """Whose work each submission is.

    Attributes:
        attempts: Each submission with its student, sorted by the student's id. The attempts of one
            student are sorted by time, then number, then path.
        missing: The students of the roster who handed in nothing, in the roster's order.
        unknown: The submissions that match no student, or several. They are in `attempts` too, with
            a student who is not listed.
    """

    attempts: list[tuple[Student, HandedIn]]
    missing: list[Student]
    unknown: list[HandedIn]


# --- reading --------------------------------------------------------------------------------------


def read(path: Path) -> list[Student]:
    """Read a roster.

    Raises:
        UsageError: The file cannot be read, is not a CSV file with a column for the id, or gives an
            id twice or not at all.
    """
    text = _text(path)
    header_line, header, rows = _rows(path, text)
    columns = _Columns(header, f"{_shown(path)}:{header_line}")
    students: list[Student] = []
    lines: dict[str, int] = {}
    for line, row in rows:
        where = f"{_shown(path)}:{line}"
        cells = [" ".join(unicodedata.normalize("NFC", cell).split()) for cell in row]
        if any(cells[len(header) :]):
            raise UsageError(f"{where} has more cells than the header has columns")
        student = columns.student(cells + [""] * (len(header) - len(cells)))
        if columns.is_canvas and _is_extra_row(student):
            continue
        if not student.id:
            raise UsageError(f"{where} has no {columns.id_name}")
        if student.id in lines:
            raise UsageError(
                f"{_shown(path)} has the id {one_line(student.id, 100)} twice, in lines "
                f"{lines[student.id]} and {line}"
            )
        lines[student.id] = line
        students.append(student)
    if not students:
        raise UsageError(f"{_shown(path)} has a header but no students")
    return students


def _text(path: Path) -> str:
    """Read a text file in UTF-8, or in UTF-16 if its first bytes say so."""
    try:
        with path.open("rb") as file:
            content = file.read(MAX_BYTES + 1)
    except OSError as e:
        raise UsageError(f"{_shown(path)} cannot be read: {e.strerror}") from None
    if len(content) > MAX_BYTES:
        raise UsageError(f"{_shown(path)} is larger than {MAX_BYTES >> 20} MiB")
    wide = content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    try:
        text = content.decode("utf-16" if wide else "utf-8-sig")
    except UnicodeDecodeError as e:
        line = content.count(b"\n", 0, e.start) + 1
        raise UsageError(
            f"{_shown(path)}:{line} is not UTF-8 text; save the roster as CSV in UTF-8"
        ) from None
    if "\0" in text:
        line = text.count("\n", 0, text.index("\0")) + 1
        raise UsageError(f"{_shown(path)}:{line} is not text; save the roster as CSV in UTF-8")
    return text


def _rows(path: Path, text: str) -> tuple[int, list[str], Iterator[tuple[int, list[str]]]]:
    """The header's line and cells, and the line and cells of each row after it."""
    best: tuple[int, int] = (-1, -1)
    delimiter = ","
    for candidate in DELIMITERS:
        # With the wrong delimiter, quotes may be in the middle of a cell.
        with suppress(UsageError):
            _, header = next(_records(path, text, candidate), (0, []))
            quality = (sum(_letters(cell) in KNOWN for cell in header), len(header))
            if quality > best:
                best, delimiter = quality, candidate
    records = _records(path, text, delimiter)
    line, header = next(records, (0, []))
    if not header:
        raise UsageError(f"{_shown(path)} is empty; expected a header and one line per student")
    return line, [cell.strip() for cell in header], records


def _records(path: Path, text: str, delimiter: str) -> Iterator[tuple[int, list[str]]]:
    """The first line and the cells of each record that is not blank."""
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    line = 1
    try:
        for row in reader:
            if "".join(row).strip(DELIMITERS + string.whitespace):
                yield line, row
            line = reader.line_num + 1
    except csv.Error as e:
        raise UsageError(f"{_shown(path)}:{line} is not valid CSV: {e}") from None


class _Columns:
    """What each column of a roster is for.

    Args:
        header: The names of the columns.
        where: The file and the header's line.

    Raises:
        UsageError: There is no column for the id, or two columns have the same role and name.
    """

    def __init__(self, header: list[str], where: str) -> None:
        places: dict[str, int] = {}
        for place, name in enumerate(header):
            if (role := _letters(name)) in KNOWN and places.setdefault(role, place) != place:
                raise UsageError(f"{where} has two columns named {one_line(name, 100)}")
        roles = (ID, NAME, FIRST_NAME, LAST_NAME, EMAIL, SECTION)
        found = [next((places[name] for name in names if name in places), None) for names in roles]
        self.id, self.name, self.first, self.last, self.email, self.section = found
        if self.id is None:
            raise UsageError(
                f"{where} has no column for the id; expected a header with a column named id, "
                "student id, SID or SIS User ID"
            )
        if self.name is not None:
            self.first = self.last = None
        self.id_name = one_line(header[self.id], 100)
        self.is_canvas = {"student", "id", "section"} <= places.keys()
        used = {self.id, self.name, self.first, self.last, self.email, self.section}
        self.others: dict[str, int] = {}
        for place, name in enumerate(header):
            if name and place not in used:
                unique = f"{name} (column {place + 1})" if name in self.others else name
                self.others[unique] = place

    def student(self, cells: list[str]) -> Student:
        """The student in a row that has a cell for each column."""

        def cell(place: int | None) -> str:
            return "" if place is None else cells[place]

        return Student(
            id=cell(self.id),
            name=cell(self.name) or f"{cell(self.first)} {cell(self.last)}".strip(),
            email=cell(self.email),
            section=cell(self.section),
            columns={name: cells[place] for name, place in self.others.items()},
        )


def _is_extra_row(student: Student) -> bool:
    """Whether a row of Canvas' gradebook is no student: how points are posted, and a test."""
    if student.name == "Student, Test":
        return True
    return not student.id and student.name.casefold() in ("", "points possible")


def _letters(text: str) -> str:
    """The letters and digits of a column's name, in lower case."""
    return "".join(c for c in text.casefold() if c.isalnum())


def _shown(path: Path) -> str:
    return one_line(str(path), MAX_SHOWN)


# --- whose work it is -----------------------------------------------------------------------------


def assign(handed_in: list[HandedIn], roster: list[Student] | None) -> Assigned:
    """Find the student of each submission.

    A submission's key is compared with the roster's ids first. Then all that the submission is
    known as is compared with ids, e-mail addresses, the roster's other columns and names, in this
    order. The first of these that matches anything decides; if it matches several students, the
    submission is unknown. Without a roster, each key is a student.

    Raises:
        UsageError: Nothing says which of two submissions of one student is the later one.
    """
    find = _Finder(roster or [])
    attempts: list[tuple[Student, HandedIn]] = []
    unknown: list[HandedIn] = []
    strangers: dict[str, Student] = {}
    for item in sorted(handed_in, key=_order):
        student = find(item)
        if student is None:
            if roster is not None:
                unknown.append(item)
            student = strangers.setdefault(item.key, _from_metadata(item, listed=roster is None))
        attempts.append((student, item))
    attempts.sort(key=lambda attempt: attempt[0].id)  # stable: the order of attempts stays
    _check_order(attempts)
    present = {student.id for student, _ in attempts if student.listed}
    missing = [student for student in roster or [] if student.id not in present]
    return Assigned(attempts, missing, unknown)


def _from_metadata(item: HandedIn, *, listed: bool) -> Student:
    return Student(id=item.key, name=item.student_name, email=item.email, listed=listed)


def _order(item: HandedIn) -> tuple[float, int, str]:
    at = item.submitted_at.timestamp() if item.submitted_at else float("-inf")
    return at, item.number or 0, os.fsdecode(item.path)


def _check_order(attempts: list[tuple[Student, HandedIn]]) -> None:
    """Check that a time or a number tells any two attempts of a student apart.

    Raises:
        UsageError: Two attempts have no time, and the same number or none.
    """
    by_student = itertools.groupby(attempts, key=lambda attempt: attempt[0].id)
    for key, group in by_student:
        undated = [item for _, item in group if item.submitted_at is None]
        for first, second in itertools.pairwise(undated):
            if first.number is None or first.number == second.number:
                raise UsageError(
                    f"{_shown(first.path)} and {_shown(second.path)} are both from the student "
                    f"{one_line(key, 100)}, and nothing says which was handed in last; remove the "
                    "one that does not count"
                )


class _Finder:
    """Finds a submission's student on a roster."""

    def __init__(self, roster: list[Student]) -> None:
        ids = _index((_same(s.id), s) for s in roster)
        emails = _index((_same(s.email).casefold(), s) for s in roster)
        others = _index((text, s) for s in roster for text in _identifiers(s))
        names = _index((form, s) for s in roster for form in _forms(s.name))
        # What is looked up, in which form, and where.
        self._steps: list[tuple[_Texts, Callable[[str], str], dict[str, list[Student]]]] = [
            (lambda item: (item.key,), _same, ids),
            (_known_as, _same, ids),
            (_known_as, lambda text: _same(text).casefold(), emails),
            (_known_as, lambda text: _same(text).casefold(), others),
            (_known_as, _form, names),
        ]

    def __call__(self, item: HandedIn) -> Student | None:
        """The only student whom the first successful step finds; None if there is none."""
        for texts, form, index in self._steps:
            forms = {form(text) for text in texts(item)} - {""}
            found = {s.id: s for text in forms for s in index.get(text, [])}
            if found:
                return next(iter(found.values())) if len(found) == 1 else None
        return None


_Texts = Callable[[HandedIn], tuple[str, ...]]


def _known_as(item: HandedIn) -> tuple[str, ...]:
    return (item.key, *item.known_as, item.email, item.student_name)


def _index(pairs: Iterable[tuple[str, Student]]) -> dict[str, list[Student]]:
    index: dict[str, list[Student]] = defaultdict(list)
    for text, student in pairs:
        index[text].append(student)
    return dict(index)


def _identifiers(student: Student) -> Iterator[str]:
    """What else may identify a student: the id in another case, and the columns without points."""
    yield _same(student.id).casefold()
    for name, value in student.columns.items():
        if not POINTS.search(name):
            yield _same(value).casefold()


def _same(text: str) -> str:
    """A text that is the same for all spellings of its letters."""
    return unicodedata.normalize("NFC", text.strip())


# --- names ----------------------------------------------------------------------------------------


def _forms(name: str) -> set[str]:
    """The forms in which platforms write a name: "Jane Doe" gives `janedoe` and `doejane`.

    Nothing says where the last name begins, so each word may be the first one. A comma says it.
    """
    last, comma, first = name.partition(",")
    words = [last, first] if comma else name.split()
    return {_form(" ".join(words[i:] + words[:i])) for i in range(len(words))}


def _form(name: str) -> str:
    """The letters of a name in lower case and without accents; empty if it has a digit.

    A digit may tell two students of one name apart, so `doejane2` is not Jane Doe.
    """
    plain = unicodedata.normalize("NFKD", unicodedata.normalize("NFKD", name).casefold())
    if any(c.isdigit() for c in plain):
        return ""
    return "".join(c for c in plain if c.isalpha())
