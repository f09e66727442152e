"""examples/make_class.py writes a valid class, and the same class for the same seed."""

from collections import Counter

import pytest

from examples import make_class
from grader.base.errors import SubmissionRefused
from grader.course import courses
from grader.submission import submissions

COURSE = courses.load()


@pytest.fixture(scope="module")
def students():
    return make_class.students_of(100, 0, COURSE)


@pytest.fixture(scope="module")
def out(students, tmp_path_factory):
    folder = tmp_path_factory.mktemp("class") / "out"
    make_class.write_class(folder, students)
    return folder


def test_the_same_seed_gives_the_same_students():
    first, same, other = (make_class.students_of(10, seed, COURSE) for seed in (0, 0, 1))
    assert first == same != other


def test_the_class_has_every_kind_of_student_and_file(students):
    kinds = Counter(student.kind for student in students)
    assert (kinds.keys(), kinds.total()) == (make_class.SHARES.keys(), 100)
    assert {len(student.attempts) for student in students} == {0, 1, 3}
    attempts = [attempt for student in students for attempt in student.attempts]
    assert {attempt.work for attempt in attempts} == {"honest", "broken", "hostile"}


def test_honest_work_is_read_and_broken_work_is_refused(students, out):
    """The roster has all but a few students; honest work is right, wrong or not done."""
    attempts = {attempt.name: attempt for student in students for attempt in student.attempts}
    files = sorted((out / "submissions").iterdir())
    assert [path.name for path in files] == sorted(attempts)
    stubs = {path: (COURSE.root / path).read_bytes() for path in make_class.modules_of(COURSE)}
    undone = Counter()
    for path in files:
        if attempts[path.name].work == "broken":
            with pytest.raises(SubmissionRefused):
                submissions.read(path)
        else:
            sources = submissions.read(path).sources
            assert sources.keys() >= stubs.keys(), path.name
            undone[sum(sources[name].startswith(stub) for name, stub in stubs.items())] += 1
    assert sum(attempt.work == "broken" for attempt in attempts.values()) > 4  # each sort
    assert undone[0] > 40
    assert max(undone) > 2  # a student of little ability leaves several modules
    header, *rows = (out / "roster.csv").read_text(encoding="utf-8").splitlines()
    listed = [student.id for student in students if student.kind != "unknown"]
    assert header == "id,name,email,section"
    assert [row.split(",")[0] for row in rows] == listed
    assert len(students) > len(listed)
