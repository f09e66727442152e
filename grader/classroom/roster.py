"""Read the roster of a class, and find the student of each submission.

The roster is a CSV file with a header: written by hand, or exported from a learning system's
gradebook or roster. Submissions of people who are not on the roster are graded all the same.
"""

import itertools
import re
import string
import unicodedata
from collections import defaultdict
from collections.abc import Container, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec

from grader.base import files
from grader.base.errors import UsageError, did_you_mean
from grader.classroom.class_records import HandedIn, Student, called
from grader.classroom.intake.folder_items import order
from kit.safe_text import counted, first, one_line

MAX_SHOWN = 300
DELIMITERS = ",;\t"

SEPARATOR = re.compile(r"\ufeff?\"?sep=(.)\"?\r?\n", re.IGNORECASE)  # how Excel names it

# The names that each column may have, best first; only letters and digits are compared.
NAMES = {
    "id": (
        "id", "studentid", "studentnumber", "sid", "sisuserid", "sisid", "userid", "username",
        "sisloginid", "loginid", "login", "netid",
    ),
    "name": ("name", "student", "fullname", "studentname"),
    "first": ("firstname", "givenname", "first"),
    "last": ("lastname", "surname", "familyname", "last"),
    "email": ("email", "emailaddress", "mail"),
    "section": ("section", "sections"),
}  # fmt: skip
KNOWN = {name for names in NAMES.values() for name in names}
ROLE = ("role", "roles", "userrole", "courserole")
STAFF = re.compile(
    r"(?i)teach|\bTA\b|TaEnrol|instructor|reader|grader|observer|designer|tutor|prof|lectur|assist"
    r"|staff|manager"
)
# What a spreadsheet makes of a long number, or of a formula that fails.
DAMAGED = re.compile(r"\d([.,]\d+)?E\+\d+|\d[.,]\d+E\d+|#[A-Z0-9/]+[!?]?", re.IGNORECASE)

# Columns of a gradebook whose values identify no student, such as "Homework 2 (4711)".
POINTS = re.compile(r"\(\d+\)$|score|grade|points", re.IGNORECASE)


# In the name of a file: words, and numbers that count attempts rather than name a student.
WORD = re.compile(r"[^\W_]+")
SHORT = re.compile(r"\d{1,3}")
MOST_WORDS = 12
NAMED = 9  # the most submissions without a student that a message names


@dataclass(frozen=True)
class Assigned:
    # Sorted by the student's id, and each student's by time, then number, then path.
    attempts: list[tuple[Student, HandedIn]]
    missing: list[Student]
    # Those that match no student, or several; in `attempts`, their student is not listed.
    unknown: list[HandedIn]
    notes: list[str]  # sentences about names that were matched in part, or not at all


# --- reading --------------------------------------------------------------------------------------


def read(path: Path, notes: list[str] | None = None) -> list[Student]:
    """Read a roster; rows that are left out are said in `notes`.

    Raises:
        UsageError: The file cannot be read, is not a CSV file with a column for the id, gives an id
            twice or not at all, or gives one that a spreadsheet has rounded.
    """
    header_line, header, rows = table(path)
    columns = _Columns(header, f"{_shown(path)}:{header_line}")
    staff: list[str] = []
    students: dict[str, tuple[Student, int]] = {}
    for line, row in rows:
        where = f"{_shown(path)}:{line}"
        cells = [" ".join(unicodedata.normalize("NFC", cell).split()) for cell in row]
        if any(cells[len(header) :]):
            raise UsageError(f"{where} has more cells than the header has columns")
        student = columns.student(cells + [""] * (len(header) - len(cells)))
        if columns.is_added(student):
            continue
        if _is_staff(student):
            staff.append(one_line(student.name or student.id or f"line {line}", 100))
            continue
        if not student.id:
            raise UsageError(f"{where} has no {columns.id_name}")
        if DAMAGED.fullmatch(student.id):
            raise UsageError(
                f"{where}: a spreadsheet has damaged the id {one_line(student.id, 50)}: make its "
                "column a text, or take the roster from where it was exported"
            )
        if student.id in students:
            raise UsageError(
                f"{_shown(path)} has the id {one_line(student.id, 100)} twice, in lines "
                f"{students[student.id][1]} and {line}"
            )
        students[student.id] = student, line
    if not students:
        raise UsageError(f"{_shown(path)} has a header but no students")
    if staff and notes is not None:
        notes.append(f"{counted(len(staff), 'row')} of staff left out: {first(staff, NAMED)}")
    return [student for student, _ in students.values()]


def table(
    path: Path, known: Container[str] = KNOWN
) -> tuple[int, list[str], Iterator[tuple[int, list[str]]]]:
    """Read a CSV file: the header's line and cells, and the line and cells of each row after it.

    The delimiter is recognised by the known names of columns, as letters and digits.

    Raises:
        UsageError: It cannot be read, or is empty or not CSV.
    """
    text = files.table_text(path)
    best: tuple[int, int] = (-1, -1)
    delimiter, said = ",", SEPARATOR.match(text)
    text = "\n" + text[said.end() :] if said else text  # lines keep their numbers
    for candidate in said[1] if said else DELIMITERS:
        # With the wrong delimiter, quotes may be in the middle of a cell.
        with suppress(UsageError):
            _, header = next(_records(path, text, candidate), (0, []))
            quality = (sum(_letters(cell) in known for cell in header), len(header))
            if quality > best:
                best, delimiter = quality, candidate
    records = _records(path, text, delimiter)
    line, header = next(records, (0, []))
    if not header:
        raise UsageError(f"{_shown(path)} is empty: expected a header and one line per student")
    return line, [cell.strip() for cell in header], records


def _records(path: Path, text: str, delimiter: str) -> Iterator[tuple[int, list[str]]]:
    for line, row in files.table_rows(text, _shown(path), delimiter, strict=True):
        if "".join(row).strip(DELIMITERS + string.whitespace):
            yield line, row


class _Columns:
    def __init__(self, header: list[str], where: str) -> None:
        places: dict[str, int] = {}
        for place, name in enumerate(header):
            if (role := _letters(name)) in KNOWN and places.setdefault(role, place) != place:
                raise UsageError(f"{where} has two columns named {one_line(name, 100)}")
        self._of = {
            column: next((places[name] for name in names if name in places), None)
            for column, names in NAMES.items()
        }
        if self._of["id"] is None:
            raise UsageError(
                f"{where} has no column for the id: expected a header with a column named id, "
                f"student id, SID or SIS User ID, found {one_line(', '.join(header), 100)}"
            )
        if self._of["name"] is not None:
            self._of["first"] = self._of["last"] = None
        self.id_name = one_line(header[self._of["id"]], 100)
        self.is_gradebook = {"student", "id", "section"} <= places.keys()
        self.others: dict[str, int] = {}
        for place, name in enumerate(header):
            if name and place not in self._of.values():
                unique = f"{name} (column {place + 1})" if name in self.others else name
                self.others[unique] = place

    def student(self, cells: list[str]) -> Student:
        """The student in a row that has a cell for each column."""
        of = {name: "" if place is None else cells[place] for name, place in self._of.items()}
        return Student(
            id=of["id"],
            name=of["name"] or f"{of['first']} {of['last']}".strip(),
            email=of["email"],
            section=of["section"],
            columns={name: cells[place] for name, place in self.others.items()},
        )

    def is_added(self, student: Student) -> bool:
        """Whether a platform added a row: a posting policy, the points possible, a test student."""
        is_title = not student.id and student.name.casefold() in ("", "points possible")
        return self.is_gradebook and (is_title or student.name == "Student, Test")


def _is_staff(student: Student) -> bool:
    role = " ".join(v for name, v in student.columns.items() if _letters(name) in ROLE)
    return bool(STAFF.search(role)) and "student" not in role.casefold()


def _letters(text: str) -> str:
    """The letters and digits of a column's name, in lower case."""
    return "".join(c for c in text.casefold() if c.isalnum())


def _shown(path: Path) -> str:
    return one_line(str(path), MAX_SHOWN)


def same_people(roster: list[Student], known: list[Student]) -> list[tuple[Student, Student]]:
    """The known students whom a roster has under another id, each with the roster's student."""
    by_id = {student.id: student for student in roster}
    index = _index((trait, student) for student in roster for trait in _traits(student))
    found = []
    for one in known:
        same = [ids for trait in _traits(one) if (ids := index.get(trait))]
        agreed = set.intersection(*same) if same else set()
        if one.id not in by_id and len(agreed) == 1:
            found.append((one, by_id[agreed.pop()]))
    return found


def _traits(student: Student) -> set[str]:
    names = {f"name {form}" for form in _forms(student.name or student.id) if form}
    return names | {f"id {loose(text)}" for text in _logins(student) if loose(text)}


# --- finding the student --------------------------------------------------------------------------


def assign(
    handed_in: list[HandedIn], roster: list[Student] | None, former: Container[str] = ()
) -> Assigned:
    """Find the student of each submission.

    Students choose their names, so a name is compared with names only, and an address with
    addresses only. A key or another text of unknown kind is compared with ids, addresses, the
    roster's other columns and names. All matches have to agree on one student; otherwise the
    submission is unknown. It is also unknown if only its name matches, and the student has
    submissions under another key or the key matches another student. Without a roster, each key is
    a student. Former ids of students get no note. If nothing tells which of a student's two
    submissions is later, both are in doubt.
    """
    find = _StudentFinder(roster or [])
    matches = _without_namesakes([find(item) for item in sorted(handed_in, key=order)])
    unknown = [one.item for one in matches if one.student is None and roster is not None]
    listed = {folded(student.id) for student in roster or []}
    keys = {folded(i.key) for i in handed_in if not _is_text(i.key, i.student_name)}
    strangers: dict[str, Student] = {}
    attempts: list[tuple[Student, HandedIn]] = []
    for match in matches:
        student, item = match.student, match.item
        if student is None:
            key, is_listed = _new_id(item, listed, keys), roster is None
            new = Student(id=key, name=item.student_name, email=item.email, listed=is_listed)
            student = strangers.setdefault(key, new)
        attempts.append((student, item))
    attempts.sort(key=lambda attempt: attempt[0].id)  # stable, so the order of attempts is kept
    attempts = _with_doubts(attempts, {student.id for student in roster or []})
    present = {student.id for student, _ in attempts if student.listed}
    missing = [student for student in roster or [] if student.id not in present]
    told = [item for item in unknown if item.key not in former]
    notes = [] if roster is None else _notes(matches, told, roster)
    return Assigned(attempts, missing, unknown, notes)


def _notes(matches: list["_Match"], unknown: list[HandedIn], roster: list[Student]) -> list[str]:
    """What a person should know about names that hold an id, and about those that hold none."""
    notes = []
    if held := [(one.item, one.student) for one in matches if one.student and one.by_part]:
        pair = f"{one_line(held[0][0].path.name, 100)} ({called(held[0][1])})"
        notes.append(f"{counted(len(held), 'name')} held a student of the roster, such as {pair}.")
    notes += [
        f"{one_line(one.item.path.name, 100)} names {' and '.join(one.several)}, and counts for "
        "neither: hand in a copy for each"
        for one in matches
        if one.several
    ][:NAMED]
    by_form = _index((loose(student.id), student) for student in roster)
    keys = list(dict.fromkeys(item.key for item in unknown))
    for key in keys[:NAMED]:
        same = sorted(by_form.get(loose(key), set()))
        meant = did_you_mean(key, [one.id for one in roster])
        is_not = "is not"
        if key in same:
            is_not, meant = "is", ", with another name or address"
        elif same:
            meant = (
                f", which has {one_line(same[0], 50)}: a spreadsheet changes ids (keep that column "
                "as text), or `grader merge-students` makes both one student"
            )
        notes.append(f"{one_line(key, 100)} {is_not} on the roster{meant}")
    if len(keys) > NAMED:
        notes.append(f"{len(keys) - NAMED} more are not on the roster")
    if any(not item.student_name and not item.email for item in unknown):
        notes.append("--layout 'hw1-{id}_{any}.zip' says where the names of files have the id")
    return notes


def loose(identity: str) -> str:
    """An id without what a spreadsheet changes: zeros in front, `.0` at the end, case, marks."""
    return _letters(folded(identity).removesuffix(".0")).lstrip("0")


def _with_doubts(
    attempts: list[tuple[Student, HandedIn]], known: Container[str]
) -> list[tuple[Student, HandedIn]]:
    """Mark a student's attempts whose order neither a time nor a number gives.

    Ids that differ only in case or in how an accent is written are of one student, unless the
    roster has them.
    """
    by_student: dict[str, list[tuple[Student, HandedIn]]] = defaultdict(list)
    for one in attempts:
        name = one[0].id
        kept = name if name in known else unicodedata.normalize("NFKC", name).casefold()
        by_student[kept].append(one)
    doubts: dict[tuple[str, Path], str] = {}
    for theirs in by_student.values():
        pairs = itertools.chain(itertools.pairwise(theirs), ((theirs[0], one) for one in theirs))
        for (student, earlier), (other, later) in pairs:
            doubt = f"{one_line(earlier.path.name, 100)} and {one_line(later.path.name, 100)} "
            if student.id != other.id:
                doubt += (
                    "name students that differ only in case or spelling; rename one, or remove the "
                    "one that does not count"
                )
            elif not _has_order(earlier, later):
                doubt += (
                    f"are both from the student {one_line(student.id, 100)}, and nothing says "
                    "which was handed in last; remove the one that does not count"
                )
                if earlier.path.name.startswith(earlier.key):
                    hint = f"{earlier.key}@2026-10-01T22-10-00Z.zip"
                    doubt += f", or add a time to each name, as in {one_line(hint, 100)}"
            else:
                continue
            doubts |= {(student.id, earlier.path): doubt, (other.id, later.path): doubt}
    return [
        (student, msgspec.structs.replace(item, doubt=doubt) if doubt else item)
        for student, item in attempts
        for doubt in ["" if item.doubt else doubts.get((student.id, item.path), "")]
    ]


def _has_order(first: HandedIn, second: HandedIn) -> bool:
    if first.path == second.path or first.number not in (None, second.number):
        return True
    return first.submitted_at not in (None, second.submitted_at)


def _new_id(item: HandedIn, listed: set[str], keys: set[str]) -> str:
    """An id for a student who is not on the roster: the key, unless somebody else has it.

    The name that a student chose may be somebody's id. The key of an unknown submission may also be
    an id of the roster, if something else about the submission matches another student.
    """
    taken = listed | keys if _is_text(item.key, item.student_name) else listed
    key = item.key
    while folded(key) in taken:
        key += " (another student)"
    return key


@dataclass(frozen=True)
class _Match:
    item: HandedIn  # the submission
    student: Student | None
    by_name: bool  # whether only a name matches
    by_part: bool = False  # whether a part of the file's name matches, and the whole does not
    # The ids of the students who are named in a file's name, if there are several.
    several: tuple[str, ...] = ()


def _without_namesakes(matches: list[_Match]) -> list[_Match]:
    """Drop a name-only match if its student has another key or its key has another student."""
    keys: dict[str, set[str]] = defaultdict(set)
    students: dict[str, set[str]] = defaultdict(set)
    for match in matches:
        if match.student:
            keys[match.student.id].add(match.item.key)
            students[match.item.key].add(match.student.id)
    return [
        replace(match, student=None)
        if match.student
        and match.by_name
        and max(len(keys[match.student.id]), len(students[match.item.key])) > 1
        else match
        for match in matches
    ]


class _StudentFinder:
    def __init__(self, roster: list[Student]) -> None:
        self._students = {s.id: s for s in roster}
        self._ids = _index((_same(s.id), s) for s in roster)
        self._emails = _index((folded(s.email), s) for s in roster)
        self._others = _index((text, s) for s in roster for text in _identifiers(s))
        self._logins = _index((text, s) for s in roster for text in _logins(s))
        self._names = _index((form, s) for s in roster for form in _forms(s.name))

    def __call__(self, item: HandedIn) -> _Match:
        """The one student on whom all matches agree; None if they disagree or there are none."""
        texts = [t for t in (item.key, *item.known_as) if not _is_text(t, item.email)]
        anything = [text for text in texts if not _is_text(text, item.student_name)]
        sure = [ids for text in anything for ids in self._by_anything(text)]
        sure.append(self._by_address(item.email))
        names = [self._names.get(_form(text), set()) for text in (*texts, item.student_name)]
        found = [ids for ids in (*sure, *names) if ids]
        if not found and not item.student_name and not item.email:
            return self._by_part(item, texts)
        agreed = set.intersection(*found) if found else set()
        student = self._students[agreed.pop()] if len(agreed) == 1 else None
        return _Match(item, student, by_name=not any(sure))

    def _by_part(self, item: HandedIn, texts: list[str]) -> _Match:
        """The one student whose id, address or name is a part of a file's name, at whole words."""
        held: set[str] = set()
        by_name = True
        for text in texts:
            taken: list[tuple[int, int]] = []
            for start, end in _runs(text):
                if any(a <= start and end <= b for a, b in taken):
                    continue  # "doe" in "jane-doe", which is an id
                part = text[start:end]
                sure = self._logins.get("" if SHORT.fullmatch(part) else folded(part), set())
                is_name = WORD.fullmatch(part) is None  # of two words
                if found := sure or self._names.get(_form(part) if is_name else "", set()):
                    taken.append((start, end))
                    held |= found
                    by_name = by_name and not sure
        if len(held) > 1:
            return _Match(item, None, by_name=by_name, several=tuple(sorted(held)))
        student = self._students[held.pop()] if held else None
        return _Match(item, student, by_name=by_name, by_part=True)

    def _by_address(self, text: str) -> set[str]:
        """The ids of the students with this address, which may be in the column of logins."""
        address = folded(text)
        found = self._emails.get(address, set())
        return found or (self._others.get(address, set()) if "@" in address else set())

    def _by_anything(self, text: str) -> list[set[str]]:
        """The ids of students with this id or address or, if none, with it in another column."""
        wanted = folded(text)
        found = [self._ids.get(_same(text)), self._emails.get(wanted)]
        return [ids for ids in found if ids] or [self._others.get(wanted, set())]


def _runs(text: str) -> list[tuple[int, int]]:
    """Where the runs of whole words in a text begin and end, the longest first."""
    words = [match.span() for match in WORD.finditer(text)][:MOST_WORDS]
    spans = [(words[i][0], b) for i in range(len(words)) for _, b in words[i:]]
    return sorted(spans, key=lambda span: span[0] - span[1])


def _index(pairs: Iterable[tuple[str, Student]]) -> dict[str, set[str]]:
    """For each text that is not empty, the ids of the students who have it."""
    index: dict[str, set[str]] = defaultdict(set)
    for text, student in pairs:
        if text:
            index[text].add(student.id)
    return dict(index)


def _identifiers(student: Student) -> Iterator[str]:
    """Other texts that may identify a student: the id in any case, and columns without points."""
    yield folded(student.id)
    for name, value in student.columns.items():
        if not POINTS.search(name):
            yield folded(value)


def _logins(student: Student) -> Iterator[str]:
    """The texts that may be in the name of a file beside others."""
    yield from (folded(student.id), folded(student.email))
    for name, value in student.columns.items():
        if _letters(name) in (*NAMES["id"], "github"):
            yield folded(value)


def _same(text: str) -> str:
    """A text in Unicode normal form C, so that equal-looking texts compare equal."""
    return unicodedata.normalize("NFC", text.strip())


def folded(text: str) -> str:
    """A text in Unicode normal form C and without case, for comparisons."""
    return _same(text).casefold()


def _is_text(text: str, other: str) -> bool:
    """Whether two texts are equal except for case, and not empty."""
    return folded(text) == folded(other) != ""


# --- names ----------------------------------------------------------------------------------------


def _forms(name: str) -> set[str]:
    """The forms of a name by the word that comes first: `janedoe` and `doejane`."""
    last, comma, given = name.partition(",")
    words = [last, given] if comma else name.split()
    return {_form(" ".join(words[i:] + words[:i])) for i in range(len(words))}


def _form(name: str) -> str:
    """A name's letters without case and accents; empty with a digit, as two may differ by it."""
    plain = unicodedata.normalize("NFKD", unicodedata.normalize("NFKD", name).casefold())
    if any(c.isdigit() for c in plain):
        return ""
    return "".join(c for c in plain if c.isalpha())
