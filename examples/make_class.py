"""Generate a class of students for trying out `grader batch`: make_class.py OUT

OUT then contains

    submissions/    the students' submissions; a file's name gives the student's id and the time
    roster.csv      all students: id, name, email, section
    policy.toml     the deadlines and late penalties

The same seed gives the same bytes. Students differ in ability: the lower it is, the more modules of
a submission contain a known mistake of the course or are not done. Some submissions are late,
broken or hostile, and some students hand in nothing.
"""

import argparse
import csv
import random
import tomllib
from collections import Counter
from collections.abc import Iterator
from datetime import datetime, timedelta
from itertools import cycle
from pathlib import Path
from typing import NamedTuple

from grader.course import courses
from grader.course.courses import Course, sources_in
from grader.solutions import known_mistakes
from grader.solutions.known_mistakes import Mistake
from kit.handing_in import zipped

# The share of students of each kind; nobody knows the "unknown", who are not on the roster. The
# remainder from rounding becomes "in time".
SHARES = {
    "late": 0.09, "absent": 0.05, "broken": 0.04, "hostile": 0.03, "unknown": 0.01, "in time": 0.78,
}  # fmt: skip
FEWEST = 20  # the smallest class in which every kind of student occurs
ONE_IN = 12  # one in this many honest students hands in more than once
SECTIONS = {"A": "default", "B": "default", "C": "C"}  # each section and its deadline

POLICY = """\
[policy]
counts = "latest"
per_cent_a_day = 10
grace_minutes = 15
late_days = 0
cap = 50
[policy.deadlines]
default = 2026-10-02T23:59:00Z
C = 2026-10-03T23:59:00Z
"""
DEADLINES: dict[str, datetime] = tomllib.loads(POLICY)["policy"]["deadlines"]
DAY = 24 * 60  # in minutes

FIRST = ["Ada", "Zoë", "Linus", "Mei", "José", "Priya", "Olu", "Søren", "Hana", "Ivan", "Noor"]
LAST = ["Lovelace", "Núñez", "Okafor", "Li", "O'Brien", "Müller", "Rao", "Sato", "Kim", "da Silva"]

# Hostile bodies of a function: a fork bomb, a memory hog, a sleeper, and megabytes of output.
HOSTILE = (
    "import os\n    while True:\n        try: os.fork()\n        except OSError: pass",
    "held = []\n    while True: held.append(bytearray(64 * 2**20))",
    "import time\n    time.sleep(10**6)",
    "for _ in range(64): print('passed ' * 2**17)",
)
BROKEN = ("truncated", "no assignment/", "text", "encrypted")
Files = dict[str, bytes]  # by path


class Attempt(NamedTuple):
    """One submission: the name of its file, its kind, and the archive."""

    name: str
    work: str
    content: bytes


class Student(NamedTuple):
    """One student, with all attempts in the order of their times."""

    id: str
    name: str
    section: str
    kind: str
    attempts: list[Attempt]


def modules_of(course: Course) -> dict[str, list[Mistake]]:
    """The known mistakes in each module that gives points in a run on a CPU, by path."""
    found: dict[str, list[Mistake]] = {}
    for problem in (one for one in course.problems if one.device == "cpu"):
        known = known_mistakes.load(course.hidden, problem.id)
        wrong = [one for one in known if one.is_tried_on("cpu", ("cpu",))]
        found.setdefault(problem.path, []).extend(wrong)
    return found


class Maker:
    """Makes submissions; the same seed gives the same submissions."""

    def __init__(self, course: Course, seed: int) -> None:
        self.rng = random.Random(seed)
        self._course, self._modules = course, modules_of(course)
        self._right = sources_in(course.reference)
        self._honest = 0  # students so far
        # Cycles through the kinds of broken and hostile submissions, so that each kind occurs.
        self._turns: dict[str, Iterator[str]] = {"broken": cycle(BROKEN), "hostile": cycle(HOSTILE)}

    def student(self, number: int, kind: str) -> Student:
        """A student of this kind."""
        name = f"{self.rng.choice(FIRST)} {self.rng.choice(LAST)}"
        id_, section = f"s{number:04}", self.rng.choice([*SECTIONS])
        ability = self.rng.betavariate(4, 1)  # the chance to get a module right
        attempts = []
        for at, work in self._planned(DEADLINES[SECTIONS[section]], kind):
            archive = f"{id_}@{at:%Y-%m-%dT%H:%M:%SZ}.zip"
            attempts.append(Attempt(archive, work, self._archive(archive, work, ability)))
        return Student(id_, name, section, kind, attempts)

    def _planned(self, deadline: datetime, kind: str) -> list[tuple[datetime, str]]:
        """When a student hands in, and what kind of work."""
        if kind == "absent":
            return []
        if kind == "late":
            return [(deadline + timedelta(minutes=self.rng.randrange(1, 6 * DAY)), "honest")]
        at = deadline - timedelta(minutes=self.rng.randrange(1, 4 * DAY))
        if kind in self._turns:
            return [(at, kind)]
        self._honest += 1
        day = timedelta(days=1)
        earlier = [(at - 2 * day, "honest"), (at - day, "broken")] * (self._honest % ONE_IN == 0)
        return [*earlier, (at, "honest")]

    def _archive(self, name: str, work: str, ability: float) -> bytes:
        if work == "broken":
            return broken(next(self._turns[work]), self._right)
        if work == "hostile":
            first = self._course.problems[0]
            attack = f"def {first.functions[0]}(*args):\n    {next(self._turns[work])}\n"
            source = f"{self._course.reference_of(first)}\n\n{attack}".encode()
            return zipped({**self._right, first.path: source})
        changed = self._changed(ability)
        for path in [*changed][:1]:  # sign it, so that only copies of the reference are equal
            changed[path] += f"\n# {name}\n".encode()
        return zipped(self._right | changed)

    def _changed(self, ability: float) -> Files:
        """The modules that differ from the reference; each has at most one mistake."""
        changed: Files = {}
        for path, wrong in self._modules.items():
            if self.rng.random() < ability:
                continue
            if wrong and self.rng.random() < ability:
                mistake = self.rng.choice(wrong)
                problem = self._course.problem(mistake.problem)
                changed[path] = mistake.applied_to(self._course.reference_of(problem)).encode()
            else:
                changed[path] = (self._course.root / path).read_bytes()  # not done
        return changed


def students_of(count: int, seed: int, course: Course) -> list[Student]:
    """All students of a class."""
    maker = Maker(course, seed)
    kinds = [kind for kind, share in SHARES.items() for _ in range(max(1, round(share * count)))]
    kinds = [*kinds[:count], *["in time"] * (count - len(kinds))]
    maker.rng.shuffle(kinds)
    return [maker.student(number, kind) for number, kind in enumerate(kinds, 1)]


def broken(sort: str, files: Files) -> bytes:
    """A file named .zip that the grader must refuse."""
    if sort == "text":
        return b"I could not upload my work. Please see my e-mail.\n"
    if sort == "no assignment/":
        return zipped({path.rpartition("/")[2]: content for path, content in files.items()})
    whole = zipped(files)
    if sort == "truncated":
        return whole[: len(whole) // 2]
    # Mark the first file as encrypted in both of its headers.
    data = bytearray(whole)
    for signature, offset in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        data[data.index(signature) + offset] |= 1
    return bytes(data)


def write_class(out: Path, students: list[Student]) -> None:
    """Write all files of a class into a new folder."""
    (out / "submissions").mkdir(parents=True)
    for attempt in (attempt for student in students for attempt in student.attempts):
        (out / "submissions" / attempt.name).write_bytes(attempt.content)
    (out / "policy.toml").write_text(POLICY, encoding="utf-8")
    with (out / "roster.csv").open("w", encoding="utf-8", newline="") as file:
        rows = csv.writer(file, lineterminator="\n")
        rows.writerow(["id", "name", "email", "section"])
        for one in students:
            if one.kind != "unknown":
                rows.writerow([one.id, one.name, f"{one.id}@example.edu", one.section])


def parsed() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("out", type=Path, metavar="OUT", help="the folder to create; must not exist")
    add("--students", type=int, default=400, help=f"how many, {FEWEST} or more (default: 400)")
    add("--seed", type=int, default=0, help="another seed makes another class (default: 0)")
    add("--course", type=Path, metavar="FOLDER", help="the course (default: the grader's own)")
    args = parser.parse_args()
    if args.students < FEWEST:
        parser.error(f"--students {args.students}: expected {FEWEST} or more")
    if args.out.exists():
        parser.error(f"{args.out} exists already")
    return args


def main() -> None:
    """Generate a class."""
    args = parsed()
    students = students_of(args.students, args.seed, courses.load(args.course))
    write_class(args.out, students)
    kinds = Counter(student.kind for student in students)
    print(f"{args.out}: " + ", ".join(f"{n} {kind}" for kind, n in sorted(kinds.items())))


if __name__ == "__main__":
    main()
