"""examples/make_class.py writes a valid class, and the same class for the same seed."""

import json
import statistics
from collections import Counter
from datetime import timedelta

import pytest

from examples import make_class
from grader.base.errors import SubmissionRefused
from grader.course import courses
from grader.solutions import mistakes
from grader.submission import submissions

COURSE = courses.load()


TABLE = json.loads(make_class.SCORES.read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def pieces():
    return make_class.pieces_of(COURSE, TABLE)


@pytest.fixture(scope="module")
def made(pieces, tmp_path_factory):
    out = tmp_path_factory.mktemp("class") / "out"
    make_class.write_class(out, make_class.students_of(100, 0, pieces))
    return out, json.loads((out / "expected.json").read_text(encoding="utf-8"))


def test_the_same_seed_gives_the_same_bytes(made, pieces, tmp_path):
    make_class.write_class(tmp_path / "again", make_class.students_of(100, 0, pieces))
    files = [path for path in made[0].rglob("*") if path.is_file()]
    for path in files:
        assert path.read_bytes() == (tmp_path / "again" / path.relative_to(made[0])).read_bytes()
    make_class.write_class(tmp_path / "other", make_class.students_of(100, 1, pieces))
    other = (tmp_path / "other" / "expected.json").read_bytes()
    assert (made[0] / "expected.json").read_bytes() != other


def test_the_class_has_every_kind_of_student_file_and_outcome(pieces):
    students = make_class.students_of(400, 0, pieces)
    attempts = [attempt for student in students for attempt in student.attempts]
    kinds = Counter(student.kind for student in students if student.section)
    assert (kinds.keys(), kinds.total()) == (make_class.SHARES.keys(), 400)
    assert {len(student.attempts) for student in students} == {0, 1, 2, 3}
    assert {next(iter(attempt.expected)) for attempt in attempts} == {"problems", "refused", "any"}
    names = [attempt.name for attempt in attempts]
    assert {name.partition(":00Z")[2] for name in names if "Z" in name} == {"", ".zip", ".tar.gz"}
    expected = [make_class.expected_of(student) for student in students]
    assert {one["state"] for one in expected} == {"graded", "missing", "refused"}
    assert {one.get("penalty") for one in expected} >= {0, 10, 50}


def test_honest_work_is_read_and_broken_work_is_refused(made):
    """The grader reads or refuses each file as expected; the roster has all but a few students."""
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
    assert sum("refused" in one for one in expected["submissions"].values()) > 4  # each sort
    header, *rows = (out / "roster.csv").read_text(encoding="utf-8").splitlines()
    listed = [id_ for id_, one in expected["students"].items() if one["listed"]]
    assert header == "id,name,email,section"
    assert [row.split(",")[0] for row in rows] == sorted(listed)
    assert len(expected["students"]) > len(listed) == 100


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


def test_the_table_has_mistakes_of_the_course_that_cost_points():
    """Run `examples/make_class.py --measure examples/class_scores.json` if this fails."""
    assert TABLE.keys() <= make_class.known(COURSE, mistakes).keys()
    for name, score in TABLE.items():
        assert 0 <= score < COURSE.problem(name.split("/")[0]).points, name


def test_lateness_is_counted_in_days_that_have_begun():
    deadline, after = make_class.deadline_of("C"), (-5, 0, 15, 16, 1440, 1441)
    late = [make_class.days_late(deadline + timedelta(minutes=n), "C") for n in after]
    assert late == [0, 0, 0, 1, 1, 2]
