"""Generate a class of students for trying out `grader batch`: make_class.py OUT

OUT then contains

    submissions/    the students' submissions; a file's name gives the student's id and the time
    roster.csv      all students: id, name, email, section
    policy.toml     the deadlines and late penalties
    expected.json   the expected points of each file, and the expected standing of each student

The same seed gives the same bytes. Students differ in ability: the lower it is, the more modules of
a submission contain a known mistake of the course or are not done. Some submissions are late,
broken or hostile, and some students hand in nothing.

This script grades no submission. Each module gets at most one known mistake, which costs points of
its own problem only, and a table gives what is left of them. `--measure` makes the table: it grades
a fixed choice of mistakes, one at a time. `grader validate` proves that the right solutions in
other styles have all points.
"""

import argparse
import csv
import gzip
import io
import json
import math
import random
import sys
import tarfile
import tomllib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from itertools import cycle
from pathlib import Path
from typing import Any, NamedTuple, cast

from grader.base.errors import Status
from grader.course import courses
from grader.course.courses import Course, Problem, sources_in
from grader.grading.grade import grade
from grader.grading.local_student import LocalBox, LocalSession
from grader.sandbox.box import Sandbox
from grader.solutions import fragments, mistakes
from grader.solutions.fragments import Solution
from grader.submission.submissions import Submission
from kit.handing_in import zipped

SCORES = Path(__file__).with_name("class_scores.json")
Table = dict[str, float]  # "problem/mistake" to the points of the problem

# --- the composition of the class -----------------------------------------------------------------

# The share of students of each kind. The remainder from rounding becomes "in time".
SHARES = {"late": 0.09, "absent": 0.05, "broken": 0.04, "hostile": 0.03, "in time": 0.79}
# The chance that a student has a module wrong is that of the Rasch model: logistic in the module's
# difficulty minus the student's ability. Abilities are normal with this deviation; difficulties
# rise evenly in the order of the course.
DEVIATION = 1.3
EASIEST, HARDEST = -3.2, -1.0
NOT_DONE = 0.35  # the share of wrong modules that are not done at all, for a student of ability 0
FEWEST = 20  # the smallest class in which every kind of student occurs
UNKNOWN = 0.01  # extra submissions per student whose ids are not in the roster
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
RULES = tomllib.loads(POLICY)["policy"]
DEADLINES: dict[str, datetime] = RULES["deadlines"]
DAY = 24 * 60  # in minutes

FIRST = ["Ada", "Zoë", "Linus", "Mei", "José", "Priya", "Olu", "Søren", "Hana", "Ivan", "Noor"]
LAST = ["Lovelace", "Núñez", "Okafor", "Li", "O'Brien", "Müller", "Rao", "Sato", "Kim", "da Silva"]

# Hostile code that replaces a function of the assignment; {name} is the function's name.
HOSTILE = {
    "fork bomb": """\
import os


def {name}(*args):
    while True:
        try:
            os.fork()
        except OSError:
            pass
""",
    "memory hog": """\
def {name}(*args):
    held = []
    while True:
        held.append(bytearray(64 * 2**20))
""",
    "sleeper": """\
import time


def {name}(*args):
    time.sleep(10**6)
""",
    "megabytes of output": """\
def {name}(*args):
    for _ in range(64):
        print("passed " * 2**17)
""",
}
BROKEN = ("truncated", "no assignment/", "text", "encrypted")


# --- the table of points --------------------------------------------------------------------------

# These problems take too long to measure.
SLOW = {"training_loop", "checkpoint", "activation_checkpointing"}
MISTAKES_OF_A_PROBLEM = 4


def known(course: Course, solutions: Any) -> dict[str, Solution]:
    """All mistakes or variants of the problems that are measured, by "problem/name"."""
    return {
        f"{problem.id}/{solution.name}": solution
        for problem in course.problems
        if problem.device == "cpu" and problem.id not in SLOW
        for solution in solutions.load(course.hidden, problem.id)
        if solution.is_tried_on("cpu", ("cpu",))
    }


def applied(course: Course, solution: Solution) -> bytes:
    """The reference's module with a mistake or a variant."""
    return solution.applied_to(course.reference_of(course.problem(solution.problem))).encode()


def measure(course: Course) -> Table:
    """Grade a fixed choice of mistakes, one at a time and without a sandbox."""
    rng, every = random.Random(0), known(course, mistakes)
    table: Table = {}
    box = LocalBox()
    try:
        for problem in course.problems:
            own = [name for name in every if name.startswith(f"{problem.id}/")]
            for name in sample(rng, own, MISTAKES_OF_A_PROBLEM):
                table[name] = score_of(course, problem, applied(course, every[name]), box)
                print(f"{name}: {table[name]:g}", file=sys.stderr)
    finally:
        box.close()
    return table


def score_of(course: Course, problem: Problem, source: bytes, box: LocalBox) -> float:
    """The points of a problem for the reference with this module."""
    submission = Submission("mine", sources_in(course.reference) | {problem.path: source}, [])
    result = grade(
        submission,
        course,
        cast(Sandbox, box),
        problems=[problem],
        explain=False,
        session=LocalSession,
    )
    (found,) = result.problems
    if found.status is Status.GRADER_ERROR:
        raise SystemExit(f"{problem.id}: its tests fail")
    return found.score


def problems_in(course: Course, module: str) -> list[Problem]:
    """The problems of a module that give points in a run on a CPU."""
    return [p for p in course.problems if p.module == module and p.device == "cpu"]


# --- modules with known points --------------------------------------------------------------------


class Piece(NamedTuple):
    """One module of a submission, and the points of the problems that lose some."""

    path: str
    source: bytes
    scores: dict[str, float]


class Pieces(NamedTuple):
    """All modules that submissions are made of, by the name of the module."""

    files: dict[str, bytes]  # the reference, by path
    scores: dict[str, float]  # of the reference, by problem
    stubs: dict[str, Piece]
    mistakes: dict[str, list[Piece]]
    variants: dict[str, list[Piece]]  # correct versions in another style
    hostile: dict[str, Piece]  # by the kind of attack


def pieces_of(course: Course, table: Table) -> Pieces:
    """Apply the mistakes of a table, and the variants of the course, to the reference.

    Raises:
        SystemExit: A mistake in the table does not exist in the course.
    """
    every, right = known(course, mistakes), known(course, fragments)
    if missing := sorted(table.keys() - every.keys()):
        raise SystemExit(f"{missing[0]}: not in the course; make the table again with --measure")
    on_cpu = {module: problems_in(course, module) for module in course.modules}
    problems = {module: found for module, found in on_cpu.items() if found}
    return Pieces(
        files=sources_in(course.reference),
        scores={p.id: float(p.points) for found in problems.values() for p in found},
        stubs={
            module: Piece(p[0].path, (course.root / p[0].path).read_bytes(), {q.id: 0.0 for q in p})
            for module, p in problems.items()
        },
        mistakes=_by_module(course, [(every[name], table[name]) for name in sorted(table)]),
        variants=_by_module(course, [(right[name], None) for name in sorted(right)]),
        hostile=_hostile(course),
    )


def _by_module(
    course: Course, solutions: list[tuple[Solution, float | None]]
) -> dict[str, list[Piece]]:
    """Each solution applied to the reference; with a number, the points of its problem."""
    found: dict[str, list[Piece]] = {}
    for solution, score in solutions:
        problem = course.problem(solution.problem)
        scores = {} if score is None else {problem.id: score}
        piece = Piece(problem.path, applied(course, solution), scores)
        found.setdefault(problem.module, []).append(piece)
    return found


def _hostile(course: Course) -> dict[str, Piece]:
    """Each hostile source, appended to the reference module of the first problem."""
    first = course.problems[0]
    right, name = course.reference_of(first), first.functions[0]
    sources = {kind: f"{right}\n\n{text.format(name=name)}" for kind, text in HOSTILE.items()}
    return {kind: Piece(first.path, text.encode(), {}) for kind, text in sources.items()}


# --- submissions ----------------------------------------------------------------------------------


class Attempt(NamedTuple):
    """One submission."""

    name: str
    at: datetime
    content: bytes | dict[str, bytes]  # of an archive, or of a folder by path
    expected: dict[str, Any]  # as in expected.json


class Planned(NamedTuple):
    """An attempt before it is made: when, its kind, and the ability of who does honest work."""

    at: datetime
    work: str
    ability: float = 0.0


class Student(NamedTuple):
    """One student, with all attempts in the order of their times."""

    id: str
    name: str
    section: str
    kind: str
    attempts: list[Attempt]


@dataclass
class Maker:
    """Makes submissions from pieces; the same seed gives the same submissions."""

    pieces: Pieces
    rng: random.Random
    honest: int = 0  # honest students so far
    # Cycles through the kinds of broken and hostile submissions, so that each kind occurs.
    turns: dict[str, Iterator[str]] = field(
        default_factory=lambda: {"broken": cycle(BROKEN), "hostile": cycle(HOSTILE)}
    )

    def student(self, id_: str, section: str, kind: str) -> Student:
        """A student of this kind. An empty section means that the roster does not list the id."""
        name = f"{self.rng.choice(FIRST)} {self.rng.choice(LAST)}"
        ability = self.rng.gauss(0, DEVIATION)
        planned = self._planned(section, kind, ability)
        attempts = [self._attempt(id_, n, one) for n, one in enumerate(planned, 1)]
        return Student(id_, name, section, kind, attempts)

    def _planned(self, section: str, kind: str, ability: float) -> list[Planned]:
        """Each of a student's attempts."""
        deadline = deadline_of(section)
        if kind == "absent":
            return []
        if kind == "late":
            # One in five uses the grace period. Others are up to six days late.
            in_grace = self.rng.randrange(5) == 0
            minutes = self.rng.randrange(*((1, 15) if in_grace else (20, 6 * DAY)))
            return [Planned(deadline + timedelta(minutes=minutes), "honest", ability)]
        at = deadline - timedelta(minutes=self.rng.randrange(1, 4 * DAY))
        if kind in self.turns:
            return [Planned(at, kind)]
        self.honest += 1
        counts = Planned(at, "honest", ability)
        turn, rest = divmod(self.honest, ONE_IN)
        return [counts] if rest else self._several(counts, deadline, turn)

    def _several(self, counts: Planned, deadline: datetime, turn: int) -> list[Planned]:
        """Two or three attempts of one student, of which `counts` counts."""
        hour = timedelta(hours=1)
        at, _, ability = counts
        unfinished = ability - 2
        return [
            [Planned(at - 30 * hour, "broken"), counts],
            [Planned(at - 20 * hour, "honest", unfinished), counts],
            [Planned(at - 40 * hour, "honest", unfinished), Planned(at - hour, "broken"), counts],
            [counts, Planned(deadline + 30 * hour, "honest", ability + 1)],
        ][turn % 4]

    def _attempt(self, id_: str, number: int, planned: Planned) -> Attempt:
        """One submission by the student of this id."""
        at, work, ability = planned
        stem = f"{id_}@{self._written(at)}"
        if work == "broken":
            archive = broken(next(self.turns["broken"]), self.pieces.files)
            return Attempt(f"{stem}.zip", at, archive, {"refused": True})
        if work == "hostile":
            piece = self.pieces.hostile[next(self.turns["hostile"])]
            files = self.pieces.files | {piece.path: piece.source}
            return Attempt(f"{stem}.zip", at, zipped(files), {"any": True})
        changes = self._changes(ability)
        files = self.pieces.files | {piece.path: piece.source for piece in changes}
        scores = dict(self.pieces.scores)
        for piece in changes:
            scores |= piece.scores
        if changes:  # sign it, so that only copies of the reference are equal
            files[changes[0].path] += f"\n# attempt {number} of {id_}\n".encode()
        ending, content = self._packed(files)
        return Attempt(stem + ending, at, content, {"problems": scores})

    def _changes(self, ability: float) -> list[Piece]:
        """The differences from the reference, at most one piece per module."""
        rng, pieces = self.rng, self.pieces
        changes, right = [], []
        for number, module in enumerate(pieces.stubs):
            share = number / max(1, len(pieces.stubs) - 1)
            difficulty = EASIEST + share * (HARDEST - EASIEST)
            if rng.random() >= logistic(difficulty - ability):
                right.append(module)
            elif module in pieces.mistakes and rng.random() >= NOT_DONE * 2 * logistic(-ability):
                changes.append(rng.choice(pieces.mistakes[module]))
            else:
                changes.append(pieces.stubs[module])
        styled = sample(rng, [m for m in right if m in pieces.variants], rng.randrange(4))
        return changes + [rng.choice(pieces.variants[module]) for module in styled]

    def _packed(self, files: dict[str, bytes]) -> tuple[str, bytes | dict[str, bytes]]:
        """A submission's file ending and content: usually a zip, sometimes a tar.gz or a folder."""
        form = self.rng.random()
        if form < 0.05:
            return "", files
        if form < 0.15:
            return ".tar.gz", tarred(files)
        # Some zip programs put the packed folder's name before every path.
        above = "my-solution/" if form < 0.30 else ""
        return ".zip", zipped({above + path: content for path, content in files.items()})

    def _written(self, at: datetime) -> str:
        """A time for a file's name; one in ten is written in a different time zone."""
        if self.rng.randrange(10) == 0:
            return at.astimezone(timezone(timedelta(hours=2))).isoformat()
        return at.strftime("%Y-%m-%dT%H:%M:%SZ")


def logistic(x: float) -> float:
    """1 / (1 + exp(-x))."""
    return 1 / (1 + math.exp(-x))


def sample(rng: random.Random, names: list[str], count: int) -> list[str]:
    """`count` different names, or all names if there are fewer."""
    return rng.sample(names, min(count, len(names)))


def students_of(count: int, seed: int, pieces: Pieces) -> list[Student]:
    """All students of a class, then those who are not on the roster."""
    maker = Maker(pieces, random.Random(seed))
    kinds = [kind for kind, share in SHARES.items() for _ in range(max(1, round(share * count)))]
    kinds = [*kinds[:count], *["in time"] * (count - len(kinds))]
    maker.rng.shuffle(kinds)
    listed = [
        maker.student(f"s{number:04}", maker.rng.choice(list(SECTIONS)), kind)
        for number, kind in enumerate(kinds, 1)
    ]
    return listed + [
        maker.student(f"x{number:04}", "", "in time")
        for number in range(1, max(1, round(UNKNOWN * count)) + 1)
    ]


# --- archives -------------------------------------------------------------------------------------


def tarred(files: dict[str, bytes]) -> bytes:
    """A .tar.gz of these files."""
    buffer = io.BytesIO()
    with (
        gzip.GzipFile(fileobj=buffer, mode="wb", mtime=0) as stream,
        tarfile.open(fileobj=stream, mode="w") as archive,
    ):
        for path, content in sorted(files.items()):
            info = tarfile.TarInfo(path)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return buffer.getvalue()


def broken(sort: str, files: dict[str, bytes]) -> bytes:
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


# --- expected results -----------------------------------------------------------------------------


def deadline_of(section: str) -> datetime:
    """The deadline of a section, or of students without one."""
    return DEADLINES[SECTIONS.get(section, "default")]


def days_late(at: datetime, section: str) -> int:
    """How many days have begun between the deadline and a time; 0 in the grace period."""
    minutes = (at - deadline_of(section)).total_seconds() / 60
    return math.ceil(minutes / DAY) if minutes > RULES["grace_minutes"] else 0


def expected_of(student: Student) -> dict[str, Any]:
    """The expected standing of a student.

    The latest attempt in time counts or, if all are late, the first attempt. A score of None means
    that any score is accepted, because the submission is hostile.
    """
    about = {"kind": student.kind, "listed": bool(student.section)}
    if not student.attempts:
        return about | {"state": "missing", "attempts": 0}
    in_time = [one for one in student.attempts if not days_late(one.at, student.section)]
    counts = in_time[-1] if in_time else student.attempts[0]
    days = days_late(counts.at, student.section)
    about |= {"attempts": len(student.attempts), "counts": counts.name, "days_late": days}
    about["penalty"] = min(RULES["cap"], RULES["per_cent_a_day"] * days)
    if "refused" in counts.expected:
        return about | {"state": "refused"}
    scores = counts.expected.get("problems")
    return about | {"state": "graded", "score": None if scores is None else sum(scores.values())}


# --- files ----------------------------------------------------------------------------------------


def write_class(out: Path, students: list[Student]) -> None:
    """Write all files of a class into a new folder."""
    folder = out / "submissions"
    folder.mkdir(parents=True)
    attempts = [attempt for student in students for attempt in student.attempts]
    for attempt in attempts:
        write_submission(folder / attempt.name, attempt.content)
    (out / "policy.toml").write_text(POLICY, encoding="utf-8")
    with (out / "roster.csv").open("w", encoding="utf-8", newline="") as file:
        rows = csv.writer(file, lineterminator="\n")
        rows.writerow(["id", "name", "email", "section"])
        for one in students:
            if one.section:
                rows.writerow([one.id, one.name, f"{one.id}@example.edu", one.section])
    expected = {
        "students": {student.id: expected_of(student) for student in students},
        "submissions": {attempt.name: attempt.expected for attempt in attempts},
    }
    (out / "expected.json").write_text(as_json(expected), encoding="utf-8")


def write_submission(path: Path, content: bytes | dict[str, bytes]) -> None:
    """Write one archive or folder."""
    files = {"": content} if isinstance(content, bytes) else content
    for name, source in files.items():
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        (path / name).write_bytes(source)


def as_json(value: object) -> str:
    """JSON with sorted keys, so that two versions can be compared line by line."""
    return json.dumps(value, indent=1, sort_keys=True, ensure_ascii=False) + "\n"


# --- the command ----------------------------------------------------------------------------------


def parsed() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("out", type=Path, nargs="?", metavar="OUT", help="the folder to create; must not exist")
    add("--students", type=int, default=400, help=f"how many, {FEWEST} or more (default: 400)")
    add("--seed", type=int, default=0, help="another seed makes another class (default: 0)")
    add("--course", type=Path, metavar="FOLDER", help="the course (default: the grader's own)")
    add("--scores", type=Path, default=SCORES, metavar="FILE.json", help="the table of points")
    told = "grade the chosen mistakes, write the table of their points, and stop"
    add("--measure", type=Path, metavar="FILE.json", help=told)
    args = parser.parse_args()
    if (args.out is None) == (args.measure is None):
        parser.error("expected either OUT or --measure FILE.json")
    if args.students < FEWEST:
        parser.error(f"--students {args.students}: expected {FEWEST} or more")
    if args.out and args.out.exists():
        parser.error(f"{args.out} exists already")
    return args


def main() -> None:
    """Generate a class, or measure the table of points."""
    args = parsed()
    course = courses.load(args.course)
    if args.measure:
        table = measure(course)
        args.measure.write_text(as_json(table), encoding="utf-8")
        print(f"{args.measure}: {len(table)} entries")
        return
    table = json.loads(args.scores.read_text(encoding="utf-8"))
    students = students_of(args.students, args.seed, pieces_of(course, table))
    write_class(args.out, students)
    kinds = Counter(student.kind if student.section else "unknown" for student in students)
    print(f"{args.out}: " + ", ".join(f"{n} {kind}" for kind, n in sorted(kinds.items())))


if __name__ == "__main__":
    main()
