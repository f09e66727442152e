"""The gradebook: what it stores, which results and attempts count, and which files it refuses."""

import json
import subprocess
import sys
import zlib
from datetime import UTC, datetime, timedelta

import msgspec
import pytest

from grader.base.errors import Status, UsageError
from grader.classroom import database, gradebook, setups
from grader.classroom.class_records import State, Student
from grader.classroom.setups import Setup
from grader.classroom.standings import standings
from grader.course.courses import PACKAGE
from grader.course.late_policy import Policy
from tests.grader.in_this_process import DUE, PROBLEM, new_book, of, result_of, result_on
from tests.grader.in_this_process import hand_in as hands_in
from tests.grader.test_layers import imports

SETUP = Setup(
    device="cpu",
    suite_sha256="cd" * 32,
    program_sha256="ef" * 32,
    version="1",
    torch="2.13.0",
    python="3.11.7",
    isolation="bubblewrap",
    seed=0,
    problems=["linear"],
)
NOON = datetime(2026, 10, 1, 12, tzinfo=UTC)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "class.sqlite"


@pytest.fixture
def book(path):
    with gradebook.writing(path, create=True) as opened:
        opened.students.enrol([Student(id="ada", name="Ada"), Student(id="bob")])
        yield opened


def numbered(book, **changed):
    return book.setups.number_of(msgspec.structs.replace(SETUP, **changed))


def test_an_attempt_is_added_once(book):
    assert book.attempts.add("ada", "ada.zip", of("x = 1"))
    assert not book.attempts.add("ada", "ada.zip", of("x = 1"))
    assert book.attempts.add("ada", "ada.zip", of("x = 1"), submitted_at=NOON)
    assert book.attempts.add("bob", "bob.zip", of("x = 1"))
    assert book.attempts.add("bob", "bob.zip", "it is no zip", identity="12")
    assert not book.attempts.add("bob", "bob.zip", "it is no zip", identity="12")
    told = [(a.student, a.submitted_at, a.refused) for a in book.attempts.all()]
    of_ada, of_bob = [("ada", None, ""), ("ada", NOON, "")], [("bob", None, "")]
    assert told == [*of_ada, *of_bob, ("bob", None, "it is no zip")]
    assert book._database.execute("SELECT COUNT(*) FROM content").fetchone()[0] == 1
    setup = book.setups.number_of(SETUP)
    assert book.results.to_grade(setup) == [of("x = 1").sha256]


def test_who_goes_back_to_an_earlier_version_hands_in_again(book):
    """Without times, the attempt read last counts; reading a folder again adds no attempts."""
    for text in ("x = 1", "x = 2", "x = 1"):
        assert book.attempts.add("ada", "ada.zip", of(text))
    assert book.attempts.all()[-1].sources == of("x = 1").sha256
    for _ in range(2):
        for number in (1, 2):
            book.attempts.add("bob", f"{number}.zip", of(f"{number}"), number=number)
    assert [a.name for a in book.attempts.all() if a.student == "bob"] == ["1.zip", "2.zip"]


STUDENTS = ["../é", "\U0001d4b3" * 100, ".", "a/b\n\0=1", "ada", "Ada Lovelace", "Ada_Lovelace"]


def test_any_student_has_a_file_of_its_own(tmp_path):
    """Nor can a student choose an id that is the name of another one's file."""
    ids = [*STUDENTS, "Ada/Lovelace", "x" * 101, "x" * 102, "a" * 1_000]
    ids += [name for one in ids if (name := gradebook.file_name(one)) != one]
    for one in ids:
        (tmp_path / f"{gradebook.file_name(one)}.html").write_text("x")
    found = [path.name for path in tmp_path.iterdir()]
    assert (len(ids), False) == (len(found), any(name.startswith(".") for name in found))
    assert "ada" == gradebook.file_name("ada")


def test_a_result_is_kept_and_only_a_fault_is_replaced(book):
    book.attempts.add("ada", "ada.zip", of("x = 1"))
    setup = book.setups.number_of(SETUP)
    (sources,) = book.results.to_grade(setup)
    book.results.note_fault(setup, sources, "killed")
    assert book.results.to_grade(setup) == [sources]
    assert book.results.grades(setup)[sources].fault == "killed"
    assert book.setups.graded() == {setup: 0}
    assert book.results.result(sources, setup) is None
    book.results.keep(setup, result_of(of("x = 1"), Status.GRADER_ERROR), fault="broken")
    assert book.results.to_grade(setup) == [sources]
    book.results.keep(setup, result_of(of("x = 1")))
    assert book.results.to_grade(setup) == []
    book.results.keep(setup, result_of(of("x = 1"), Status.FAILED))
    book.results.note_fault(setup, sources, "killed")
    grade = book.results.grades(setup)[sources]
    assert (grade.score, grade.fault, grade.problems) == (7.0, "", {PROBLEM: 7.0})
    assert book.results.result(sources, setup) == result_of(of("x = 1"))


def test_a_cuda_run_completes_the_cpu_run(book):
    """The merged result counts, and a student without a CUDA run has no grade yet."""
    book.attempts.add("ada", "one", of("one"))
    book.attempts.add("bob", "two", of("two"))
    cpu = book.setups.number_of(SETUP)
    book.setups.apply(cpu, why="batch")
    for name in ("one", "two"):
        book.results.keep(cpu, result_on("cpu", of(name).info))
    cuda = numbered(book, device="cuda")
    book.setups.apply(cuda, why="batch")
    book.results.keep(cuda, result_on("cuda", of("one").info, status=Status.FAILED))
    book.results.merge_devices()
    both, first, _ = book.results.counting()
    assert first == cpu
    assert book.setups.get(both).device == "cpu+cuda"
    scores = {sources: g.score for sources, g in book.results.grades(both).items()}
    assert scores == {of("one").sha256: 7.0}
    told = {one.student.id: (one.state, one.points) for one in standings(book, Policy(), 10.0)}
    # The CPU run alone does not make a grade.
    assert told == {"ada": (State.GRADED, 7.0), "bob": (State.NOT_GRADED, None)}
    book.results.note_fault(cuda, of("two").sha256, "the GPU is broken")
    book.results.merge_devices()
    assert standings(book, Policy(), 10.0)[1].state is State.GRADER_ERROR


def test_an_undo_takes_back_the_last_step_on_whichever_device(book):
    """A step may change both devices. Two steps may be equal, so each is known by its place."""
    one, two, cuda, cuda_two = (
        numbered(book, device=device, seed=seed)
        for device, seed in (("cpu", 0), ("cpu", 1), ("cuda", 0), ("cuda", 1))
    )
    seen = []
    for step in ((one,), (cuda,), (two, cuda_two), (one, cuda), (two, cuda_two)):
        book.setups.apply(*step, why="regrade")
        seen.append(book.setups.in_force())
    assert seen[0] == {"cpu": one}
    assert seen[1] == seen[3] == {"cpu": one, "cuda": cuda}
    for earlier in reversed(seen[:-1]):
        assert book.setups.undo()
        assert book.setups.in_force() == earlier
    assert not book.setups.undo()
    book.setups.apply(two, why="regrade")
    assert (book.setups.current("cpu"), book.setups.before("cpu")) == (two, one)


def said(path, *, write=True):
    with (
        pytest.raises(UsageError) as told,
        gradebook.writing(path) if write else gradebook.reading(path) as opened,
    ):
        opened.students.all()
    return str(told.value).removeprefix(str(path))


@pytest.mark.parametrize("write", [True, False])
def test_a_file_that_this_grader_cannot_use_is_named(path, write):
    path.write_text("not a database, but more than a hundred bytes long " * 5)
    expected = ": expected a gradebook of `grader batch`, found another file"
    assert said(path, write=write) == expected
    path.unlink()
    with gradebook.writing(path, create=True) as opened:
        opened._database.execute("PRAGMA user_version = 99")
    assert said(path, write=write).startswith(" was written by a newer grader (version 99")


def test_a_truncated_file_is_named(path):
    with gradebook.writing(path, create=True) as opened:
        for i in range(200):
            opened.students.enrol([Student(id=f"{i}", name="x" * 100)])
    content = path.read_bytes()[: 3 * 4096 + 100]
    path.write_bytes(content)
    assert said(path) == ": it is damaged; use a backup of it"
    assert path.read_bytes() == content


ENDLESS = "WITH RECURSIVE n(id) AS (SELECT 1 UNION ALL SELECT id + 1 FROM n) SELECT id FROM n"
CHANGES = {
    "a view": f"ALTER TABLE student RENAME TO other; CREATE VIEW student AS {ENDLESS}",
    "a view more": f"CREATE VIEW more AS {ENDLESS}",
    "a trigger": "CREATE TRIGGER t AFTER INSERT ON attempt BEGIN DELETE FROM grade; END",
    "a trigger named like a table of SQLite's": """
        PRAGMA writable_schema = ON;
        INSERT INTO sqlite_master VALUES ('trigger', 'sqlite_stat1', 'attempt', 0,
            'CREATE TRIGGER sqlite_stat1 AFTER INSERT ON attempt BEGIN DELETE FROM grade; END')""",
    "a generated column": "ALTER TABLE student ADD COLUMN more INTEGER AS (length(name))",
    "a table less": "DROP TABLE extension",
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
@pytest.mark.parametrize("write", [True, False])
def test_a_gradebook_with_other_tables_is_named(book, path, write, change):
    """Reading a view or a computed column could take forever, and a trigger changes grades."""
    with gradebook.writing(path.with_name("changed"), create=True) as opened:
        opened._database.executescript(change)
    expected = ": its tables are not those of a gradebook; use a backup of it"
    assert said(path.with_name("changed"), write=write) == expected


EDITS = {
    "no time": "UPDATE attempt SET submitted_at = 'zz'",
    "no zone": "UPDATE attempt SET submitted_at = '2026-10-01T12:00:00'",
    "no such day": "UPDATE attempt SET submitted_at = '2026-02-30T12:00:00+00:00'",
    "no columns": "UPDATE student SET columns = 'x'",
    "a list of columns": "UPDATE student SET columns = '[]'",
    "a column that is no text": """UPDATE student SET columns = '{"a": {}}'""",
    "endless points": "UPDATE grade SET score = 9e999",
    "endless points of a problem": "UPDATE score SET score = -9e999",
    "endless points by hand": "UPDATE override SET points = 9e999",
    "no time of a decision": "UPDATE override SET at = 'x'",
    "no new deadline": "UPDATE extension SET until = 'x'",
    "undone before it is done": "UPDATE applied SET why = 'undo'",
    "together with nothing": "UPDATE applied SET why = 'together'",
    "a setup that is not there": "UPDATE applied SET setup = 99",
    "a request about nothing": "UPDATE request SET attempt = 99",
}


@pytest.mark.parametrize("edit", EDITS.values(), ids=EDITS)
def test_an_edited_gradebook_is_named(book, path, edit):
    book.students.enrol([Student(id="ada", columns={"a": "b"})])
    book.attempts.add("ada", "ada.zip", of("x = 1"), submitted_at=NOON)
    number = book.setups.number_of(SETUP)
    book.results.keep(number, result_of(of("x = 1")))
    book.setups.apply(number, why="first")
    book.decisions.override("ada", 1.0, reason="oral exam")
    book.decisions.extend("ada", NOON, reason="ill")
    (attempt,) = book.attempts.all()
    asked = {"problem": "linear", "test": "t", "evidence": "e", "text": "why"}
    book.feedback.request(attempt, setup=number, **asked)
    book._database.execute("PRAGMA foreign_keys = OFF")
    book._database.execute(edit)
    book._database.commit()
    with (
        pytest.raises(UsageError, match=r"it is damaged \(.+\); use a backup"),
        gradebook.reading(path) as opened,
    ):
        opened.setups.in_force()


def test_stored_rules_are_checked_as_those_of_a_policy(book, path):
    noon = datetime(2026, 10, 1, 12)
    for policy, wrong in (
        (Policy(handout_url="javascript:alert(1)"), r"handout_url in .* is javascript:alert"),
        (Policy(time_zone="../etc/passwd"), r"time_zone in .* is \.\./etc/passwd"),
        (Policy(deadlines={"default": noon}), "the deadline default in .* has no time zone"),
    ):
        book.remember(policy)
        with pytest.raises(UsageError, match=wrong):
            book.policy()


def test_texts_of_a_stored_attempt_and_result_are_safe_to_print(book):
    bad, safe = "\x1b[31m\n::error::z", "\\x1b[31m\\n::error::z"
    number, made = book.setups.number_of(SETUP), result_of(of("x = 1"))
    named = msgspec.structs.replace(made.submission, name=bad)
    book.results.keep(number, msgspec.structs.replace(made, submission=named))
    found = book.results.result(of("x = 1").sha256, number)
    assert (safe, made.problems) == (found.submission.name, found.problems)
    book.attempts.add("ada", "ada.zip", of("x = 1"))
    ignored = json.dumps([{"path": bad, "reason": bad}])
    values = (bad, bad, ignored)
    book._database.execute("UPDATE attempt SET name = ?, refused = ?, ignored = ?", values)
    (attempt,), submission = book.attempts.all(), book.attempts.submission(of("x = 1").sha256)
    (one,), (other,) = attempt.ignored, submission.ignored
    texts = (attempt.name, attempt.refused, one.path, one.reason, other.path, submission.name)
    assert set(texts) == {safe}


def damaged_sources(book, path, text):
    book._database.commit()
    with (
        pytest.raises(UsageError, match="it is damaged; use a backup of it"),
        gradebook.reading(path) as opened,
    ):
        opened.attempts.submission(of(text).sha256)


def test_what_unpacks_to_too_much_is_named(book, path):
    """One field, packed or unpacked; and any number of files may be one content."""
    text = "#" * 2**20
    book.attempts.add("ada", "ada.zip", of("x = 1"))
    bomb = zlib.compressobj(9)
    packed = b"".join(bomb.compress(bytes(2**20)) for _ in range(65)) + bomb.flush()
    for stored in (packed, zlib.compress(b"x = 1")[:-1]):
        book._database.execute("UPDATE content SET compressed = ?", (stored,))
        damaged_sources(book, path, "x = 1")
    book.attempts.add("ada", "ada.zip", of(text))
    (key,) = book._database.execute("SELECT max(rowid), sha256 FROM content").fetchone()[1:]
    rows = [(of(text).sha256, f"assignment/{n}.py", key) for n in range(10)]
    book._database.executemany("INSERT INTO source VALUES (?, ?, ?)", rows)
    damaged_sources(book, path, text)


def test_a_clock_that_goes_back_changes_nothing_that_counts(book, monkeypatch):
    hours = iter(range(23, 0, -1))
    monkeypatch.setattr(database, "now", lambda: f"2026-10-01T{next(hours):02}:00:00+00:00")
    first, second = numbered(book), numbered(book, seed=1)
    book.setups.apply(first, why="batch")
    book.setups.apply(second, why="regrade")
    assert book.setups.current("cpu") == second
    for text in ("x = 1", "x = 2"):
        book.attempts.add("ada", "ada.zip", of(text))
    assert book.attempts.all("ada")[-1].sources == of("x = 2").sha256
    for points in (3, 5):
        book.decisions.override("ada", points, reason="read")
    assert [one.points for one in book.decisions.overrides()["ada"]][-1] == 5
    for day in (1, 2):
        book.decisions.extend("ada", NOON.replace(day=day), reason="ill")
    assert book.decisions.extensions()["ada"] == NOON.replace(day=2)


IMPORTS = """
import os, sys
from pathlib import Path
from grader.classroom import gradebook
from grader.classroom.class_records import Student
from grader.base.errors import MachineFault
from grader.submission.submissions import Submission
path = Path(sys.argv[1]) / "class.sqlite"
"""
READ_ONLY = """
try:
    with gradebook.writing(path) as book:
        book.students.enrol([Student(id="bob")])
except MachineFault as e:
    print(e)
with gradebook.reading(path) as book:
    print([student.id for student in book.students.all()])
"""
FULL = """
try:
    with gradebook.writing(path, create=True) as book:
        book.students.enrol([Student(id="ada")])
        for i in range(10_000):
            sources = {"assignment/a.py": os.urandom(9999)}
            book.attempts.add("ada", f"{i}", Submission("a", sources, []))
except MachineFault as e:
    print(e)
with gradebook.reading(path) as book:
    kept = len(book.attempts.all())
    print(kept > 50, kept == i, book._database.execute("PRAGMA integrity_check").fetchone()[0])
"""


def mounted(root, folder, mount, program):
    script = f'{mount} || exit 77; exec "$0" -c "$1" {folder}'
    command = ["unshare", "--map-root-user", "--mount", "sh", "-c", script, sys.executable]
    done = subprocess.run([*command, IMPORTS + program], cwd=root, capture_output=True, text=True)
    if done.returncode == 77 or "unshare" in done.stderr:
        pytest.skip("mounting is not allowed here")
    assert not done.stderr
    return done.stdout


@pytest.mark.slow
@pytest.mark.parametrize(
    ("place", "reason"),
    [
        ("", " cannot be written: class.sqlite.lock: Read-only file system"),
        ("class.sqlite", ": it is read-only"),
    ],
    ids=["disk", "file"],
)
def test_what_is_read_only_is_named_and_can_be_read(path, tmp_path, root, place, reason):
    """This holds even for root; a closed gradebook is a single file without a log."""
    with gradebook.writing(path, create=True) as opened:
        opened.students.enrol([Student(id="ada")])
    it = tmp_path / place
    mount = f"mount --bind {it} {it} && mount -o remount,ro,bind {it}"
    said = mounted(root, tmp_path, mount, READ_ONLY)
    assert said == f"{path}{reason}\n['ada']\n"


@pytest.mark.slow
def test_a_full_disk_costs_nothing_that_was_written(tmp_path, root):
    said = mounted(root, tmp_path, f"mount -t tmpfs -o size=3m tmpfs {tmp_path}", FULL)
    sentence = "there is no space left; everything written before is kept"
    assert said == f"{tmp_path}/class.sqlite: {sentence}\nTrue True ok\n"


# Grading imports these, but they affect no result: printing, files, the naming of mistakes, and
# rules that a gradebook applies to results.
DECIDES_NOTHING = {
    *("grader", "grader.base", "grader.course", "grader.base.files", "grader.base.interrupts"),
    *("grader.base.markdown_figures", "grader.base.removable"),
    "kit.safe_text",
    "grader.course.late_policy",
}


def test_all_that_grading_imports_is_in_the_hash():
    found, left = set(), {"grader.grading.grade"}
    while left:
        name = left.pop()
        found.add(name)
        path = PACKAGE.parent.joinpath(*name.split("."))
        file = path.with_suffix(".py")
        path = file if file.is_file() else path / "__init__.py"
        left |= {n for n in imports(path) if n.split(".")[0] == "grader"} - found
    hashed = tuple("grader." + n.removesuffix(".py").replace("/", ".") for n in setups.DECIDES)
    left_out = {name for name in found - DECIDES_NOTHING if not name.startswith(hashed)}
    assert all(name.startswith("grader.solutions") for name in left_out)


def test_each_field_changes_the_hash_and_is_told():
    others = {"seed": 1, "problems": ["linear", "adamw"]}
    for field in setups.Setup.__struct_fields__:
        other = msgspec.structs.replace(SETUP, **{field: others.get(field, "another")})
        assert other.sha256 != SETUP.sha256
        if field not in ("with_cuda", "rest"):
            assert len(setups.differences(SETUP, other)) == 1
    assert setups.differences(SETUP, SETUP) == []


# --- standings: which attempt counts, what lateness costs, and points by hand ---------------------


HOUR, DAY = timedelta(hours=1), timedelta(days=1)
HOUR, DAY = timedelta(hours=1), timedelta(days=1)
RULES = Policy(per_cent_a_day=10, grace_minutes=15, cap=25, deadlines={"default": DUE})


@pytest.fixture
def hers(path):
    """A gradebook with one student, in which results of SETUP count."""
    with new_book(path, SETUP) as opened:
        opened.students.enrol([Student(id="ada")])
        yield opened


def hand_in(hers, text, at, status=Status.PASSED):
    """Add an attempt of Ada's, which earns 7 points if it passes and none otherwise."""
    hands_in(hers, "ada", text, at, **({"setup_1": status} if status else {}))


def ada(hers, rules=RULES):
    (standing,) = standings(hers, rules, 7.0)
    return standing


@pytest.mark.parametrize(
    ("after", "points", "why"),
    [
        (-HOUR, 7.0, ""),
        (timedelta(minutes=15), 7.0, ""),  # in the grace
        (timedelta(minutes=16), 6.3, ""),
        (DAY, 6.3, ""),
        (DAY + HOUR, 5.6, ""),
        (59 * DAY, 5.25, ""),  # capped
        (365 * DAY, 5.25, "it is 365 days late: is its time right?"),
    ],
    ids=range(7),
)
def test_each_day_that_begins_costs_ten_per_cent_up_to_the_cap(hers, after, points, why):
    hand_in(hers, "one", DUE + after)
    assert (ada(hers).points, ada(hers).why) == (pytest.approx(points), why)


def test_an_attempt_without_a_time_beside_one_with_a_time_is_told(hers):
    """It may be the newer one; where the best attempt counts, that makes no difference."""
    hand_in(hers, "dated", DUE)
    hand_in(hers, "undated", None)
    assert ada(hers).why == "an attempt without a time counts as earlier than this one"
    assert ada(hers, Policy(counts="best")).why == ""


def test_late_days_and_extensions_move_the_deadline(hers):
    """An extension replaces the deadline, unless it is earlier than the deadline."""
    hand_in(hers, "one", DUE + 2 * DAY)
    assert ada(hers).days_late == 2
    free = ada(hers, Policy(late_days=2, per_cent_a_day=10, deadlines={"default": DUE}))
    assert (free.points, free.days_late, free.free_days) == (7, 0, 2)
    hers.decisions.extend("ada", DUE - DAY, reason="typo")
    assert ada(hers).days_late == 2
    hers.decisions.extend("ada", DUE + DAY, reason="ill")
    assert (ada(hers).days_late, ada(hers).deadline) == (1, DUE + DAY)


def test_a_section_has_its_own_deadline(hers):
    """Sections without a deadline in the policy have the default one."""
    hand_in(hers, "one", DUE + HOUR)
    rules = Policy(per_cent_a_day=10, deadlines={"default": DUE, "B": DUE + DAY})
    assert ada(hers, rules).days_late == 1
    hers.students.enrol([Student(id="ada", section="B")])
    assert ada(hers, rules).days_late == 0


def test_the_latest_attempt_before_the_deadline_counts(hers):
    """If there is none, the first attempt after it counts, because it has the lowest penalty."""
    hand_in(hers, "late", DUE + DAY + HOUR)
    hand_in(hers, "later", DUE + 2 * DAY)
    assert (ada(hers).attempt, ada(hers).attempts) == (1, 2)
    hand_in(hers, "good", DUE - 2 * HOUR)
    hand_in(hers, "worse", DUE - HOUR, Status.FAILED)
    assert (ada(hers).attempt, ada(hers).points) == (2, 0.0)


def test_the_best_attempt_counts_where_the_course_says_so(hers):
    """Penalties are included, and an attempt without a grade might still be the best."""
    rules = Policy(counts="best", per_cent_a_day=10, deadlines={"default": DUE})
    hand_in(hers, "bad", DUE - HOUR, Status.FAILED)
    hand_in(hers, "good", DUE + HOUR)
    assert ada(hers, rules).points == pytest.approx(6.3)
    hand_in(hers, "new", DUE + 2 * HOUR, None)
    assert ada(hers, rules).state is State.NOT_GRADED


def test_what_has_no_grade_says_why_and_has_no_points(hers):
    """Missing points are not zero points: a person or another run still decides."""
    assert (ada(hers).state, ada(hers).points) == (State.MISSING, None)
    hand_in(hers, "one", DUE - 3 * HOUR, None)
    assert (ada(hers).state, ada(hers).points) == (State.NOT_GRADED, None)
    hers.results.note_fault(hers.setups.current("cpu"), of("one").sha256, "killed")
    assert (ada(hers).state, ada(hers).why) == (State.GRADER_ERROR, "killed")
    hers.attempts.add("ada", "two.zip", "it is no zip", submitted_at=DUE - HOUR)
    found = (ada(hers).state, ada(hers).points, ada(hers).why)
    assert found == (State.REFUSED, None, "it is no zip")


def test_points_by_hand_change_the_points_and_never_what_was_found(hers):
    """An override of a problem is still subject to the late penalty; one of the total is final."""
    hand_in(hers, "one", DUE + HOUR, Status.FAILED)
    hers.decisions.override("ada", 5, problem=PROBLEM, reason="fair")
    found = (ada(hers).points, ada(hers).score, ada(hers).problems)
    assert found == (4.5, 0.0, {PROBLEM: 0.0})
    hers.decisions.override("ada", 6, reason="agreed")
    assert (ada(hers).points, ada(hers).score) == (6, 0.0)
    hers.decisions.override("ada", None, reason="not agreed")
    assert (ada(hers).points, len(hers.decisions.history("ada"))) == (4.5, 3)


def test_points_for_a_problem_alone_are_no_grade(hers):
    """The other problems still wait for a result, but an override of the total needs none."""
    hand_in(hers, "one", DUE - HOUR, None)
    hers.decisions.override("ada", 5, problem=PROBLEM, reason="fair")
    assert (ada(hers).state, ada(hers).points) == (State.NOT_GRADED, None)
    hers.decisions.override("ada", 5, reason="fair")
    assert (ada(hers).state, ada(hers).points) == (State.GRADED, 5)
