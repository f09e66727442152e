"""examples/make_class.py writes a valid class, and the same class for the same seed."""

import importlib.util
import json
import statistics
import sys
from collections import Counter
from pathlib import Path

import pytest

from grader.base.errors import SubmissionRefused
from grader.course import courses
from grader.submission import submissions

SCRIPT = Path(__file__).resolve().parents[3] / "examples" / "make_class.py"
COURSE = courses.load()


def imported():
    """Import the script, which belongs to no package."""
    spec = importlib.util.spec_from_file_location("make_class", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look up their module here
    spec.loader.exec_module(module)
    return module


make_class = imported()
TABLE = json.loads(make_class.SCORES.read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def pieces():
    return make_class.pieces_of(COURSE, TABLE)


@pytest.fixture(scope="module")
def made(pieces, tmp_path_factory):
    """The folder of a class of 40, and the expected results."""
    out = tmp_path_factory.mktemp("class") / "out"
    make_class.write_class(out, make_class.students_of(40, 0, pieces))
    return out, json.loads((out / "expected.json").read_text(encoding="utf-8"))


def contents(folder):
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


def test_the_same_seed_gives_the_same_bytes(made, pieces, tmp_path):
    """Another seed gives another class."""
    make_class.write_class(tmp_path / "again", make_class.students_of(40, 0, pieces))
    make_class.write_class(tmp_path / "other", make_class.students_of(40, 1, pieces))
    assert contents(made[0]) == contents(tmp_path / "again")
    assert contents(made[0]) != contents(tmp_path / "other")


def test_every_kind_occurs_in_a_class_of_400(pieces):
    """The class has every kind of student, file format and outcome, and repeated attempts."""
    students = make_class.students_of(400, 0, pieces)
    attempts = [attempt for student in students for attempt in student.attempts]
    kinds = Counter(student.kind for student in students if student.section)
    assert kinds.keys() == make_class.SHARES.keys()
    assert kinds.total() == 400
    assert {len(student.attempts) for student in students} == {0, 1, 2, 3}
    assert {next(iter(attempt.expected)) for attempt in attempts} == {"problems", "refused", "any"}
    names = [attempt.name for attempt in attempts]
    assert len(set(names)) == len(names)
    assert {name.partition(":00Z")[2] for name in names if "Z" in name} == {"", ".zip", ".tar.gz"}
    assert any(not student.section for student in students)
    expected = [make_class.expected_of(student) for student in students]
    assert {one["state"] for one in expected} == {"graded", "missing", "refused"}
    assert {one.get("penalty") for one in expected} >= {0, 10, 50}


def test_honest_work_is_read_and_broken_work_is_refused(made):
    """The grader reads or refuses each file of the folder as expected."""
    out, expected = made
    files = sorted((out / "submissions").iterdir())
    assert [path.name for path in files] == sorted(expected["submissions"])
    modules = {f"assignment/{module}.py" for module in COURSE.modules}
    for path in files:
        if "refused" in expected["submissions"][path.name]:
            with pytest.raises(SubmissionRefused):
                submissions.read(path)
        else:
            assert submissions.read(path).sources.keys() >= modules, path.name


def test_points_spread_as_in_a_class(pieces):
    """Ability shows in several problems of a student: halves of the modules agree in rank."""
    students = make_class.students_of(400, 0, pieces)
    honest = [one.attempts[-1].expected for one in students if one.attempts]
    scores = [list(one["problems"].values()) for one in honest if "problems" in one]
    totals = sorted(map(sum, scores))
    best = totals[-1]
    assert 0.80 * best < statistics.mean(totals) < 0.92 * best
    assert statistics.stdev(totals) > 0.10 * best
    assert totals[0] < best / 2
    assert 0.1 < totals.count(best) / len(totals) < 0.4
    halves = [[sum(one[start::2]) for one in scores] for start in (0, 1)]
    assert statistics.correlation(*halves) > 0.5


@pytest.mark.parametrize("sort", make_class.BROKEN)
def test_each_sort_of_broken_archive_is_refused(sort, pieces, tmp_path):
    path = tmp_path / "broken.zip"
    path.write_bytes(make_class.broken(sort, pieces.files))
    with pytest.raises(SubmissionRefused):
        submissions.read(path)


def test_the_roster_has_all_students_but_the_unknown_ones(made):
    out, expected = made
    rows = (out / "roster.csv").read_text(encoding="utf-8").splitlines()
    listed = [id_ for id_, one in expected["students"].items() if one["listed"]]
    assert rows[0] == "id,name,email,section"
    assert [row.split(",")[0] for row in rows[1:]] == sorted(listed)
    assert len(expected["students"]) > len(listed) == 40


def test_the_table_names_mistakes_and_variants_of_the_course():
    """Run `examples/make_class.py --measure examples/class_scores.json` if this fails."""
    known = make_class.known(COURSE)
    assert TABLE.keys() == known.keys()
    for kind, table in TABLE.items():
        assert table.keys() <= known[kind].keys()


def test_the_points_of_the_table_are_possible():
    """A mistake costs points of its own problem only, and a variant costs none."""
    points = {problem.id: problem.points for problem in COURSE.problems}
    for kind, table in TABLE.items():
        for name, scores in table.items():
            own = COURSE.problem(name.split("/")[0])
            of_module = {p.id for p in make_class.problems_in(COURSE, own.module)}
            assert own.id in scores.keys() <= of_module  # one that was added later is not measured
            lost = {id_ for id_, score in scores.items() if score != points[id_]}
            assert lost == ({own.id} if kind == "mistakes" else set()), name


def test_lateness_is_counted_in_days_that_have_begun():
    """The grace period is free; after it, days are counted from the deadline and rounded up."""
    deadline = make_class.deadline_of("C")
    late = {
        minutes: make_class.days_late(deadline + make_class.timedelta(minutes=minutes), "C")
        for minutes in (-5, 0, 15, 16, 1440, 1441)
    }
    assert late == {-5: 0, 0: 0, 15: 0, 16: 1, 1440: 1, 1441: 2}
