"""A gradebook goes from one setup to another: nobody loses a grade, and each message has a way out.

Grading is replaced by stored results, because no GPU can be used here; test_old_gradebooks.py and
test_term.py regrade real submissions on a CPU.
"""

import re
import shlex
from contextlib import contextmanager

import msgspec
import pytest

from grader.base.errors import GraderFault, Status, UsageError
from grader.classroom import gradebook, setups
from grader.classroom.batches import BatchProgress
from grader.classroom.class_records import State, Student
from grader.classroom.standings import Class
from grader.commands import class_commands
from grader.course import courses
from grader.results.points import problem_result, submission_result
from grader.results.result_records import GraderInfo, Outcome
from grader.submission.submissions import read
from tests.grader.classroom.a_class import hand_in

SOURCE = "def relu(x):\n    return x\n"
STUDENTS = ("ada", "bob")
EVERY = ["relu", "softmax"]
# What a teaching assistant may choose, and the options of `batch` for it.
CHOICES = [
    {"problems": problems, "isolation": isolation, "seed": seed}
    for problems in (EVERY, ["relu"])
    for isolation in ("none", "bubblewrap")
    for seed in (0, 1)
]
ASKED = [choice | {"device": device} for device in ("cpu", "cuda") for choice in CHOICES]
# What a gradebook may have: a run on one device, or one on each, with equal seeds.
HAD = [[one] for one in ASKED] + [
    [one | {"device": "cpu"}, one | {"device": "cuda", "isolation": "bubblewrap"}]
    for one in CHOICES
]


def result(setup, submission, status=Status.PASSED):
    same = {name: getattr(setup, name) for name in ("version", "suite_sha256", "device", "seed")}
    info = GraderInfo(**same, isolation=setup.isolation)
    ended = status if setup.device == "cpu" else Status.DEFERRED
    what = "" if ended is Status.PASSED else "x"
    test = Outcome(id="test_a", device="cpu", weight=1, status=ended, what=what)
    problems = [problem_result(p, "activations", 2, [test]) for p in setup.problems]
    return submission_result(submission.info, info, problems, seconds=1.0)


@pytest.fixture(scope="module")
def course(root):
    return courses.load(root / "examples" / "tiny_course")


@pytest.fixture
def class_(monkeypatch, tmp_path, course, typed, reading_here):
    return Classroom(monkeypatch, tmp_path, course, typed)


class Classroom:
    """The folder, the gradebook and the commands of a class, whose grading may stop."""

    def __init__(self, monkeypatch, folder, course, typed):
        self.folder, self.book, self.course = folder / "handed_in", folder / "class.sqlite", course
        self.status, self.stops_after, self.fault = Status.PASSED, None, ""
        self.run = typed.all
        self.folder.mkdir()
        for name in STUDENTS:
            hand_in(self.folder, name, f"{SOURCE}# {name}")
        monkeypatch.setattr(class_commands.batches, "grade", self._grade)
        monkeypatch.setattr(class_commands, "device_named", self._device)
        self.has_gpu = True

    @contextmanager
    def _device(self, name):
        if name == "cuda" and not self.has_gpu:
            raise UsageError("--device cuda: there is no GPU")
        yield None

    def _grade(self, book, setup, executor, show):
        for number, sources in enumerate(book.results.to_grade(setup)):
            self.assert_nobody_lost_a_grade()
            if number == self.stops_after:
                raise GraderFault("stopped")
            submission = book.attempts.submission(sources)
            done = result(book.setups.get(setup), submission, self.status)
            book.results.keep(setup, done, fault=self.fault if submission.name == "bob.zip" else "")
        book.results.merge_devices()
        return BatchProgress(0)

    def has(self, *chosen):
        with gradebook.writing(self.book, create=True) as book:
            for name in STUDENTS:
                book.students.enrol([Student(id=name)])
                book.attempts.add(name, f"{name}.zip", self.read(name))
            for one in chosen:
                setup = book.setups.number_of(self.setup(one))
                book.setups.apply(setup, why="batch")
                for name in STUDENTS:
                    book.results.keep(setup, result(book.setups.get(setup), self.read(name)))
            book.results.merge_devices()

    def read(self, name):
        return read(self.folder / f"{name}.zip")

    def setup(self, chosen):
        problems = [self.course.problem(name) for name in chosen["problems"]]
        about = {key: chosen[key] for key in ("device", "isolation", "seed")}
        return setups.of_today(self.course, problems, **about)

    def regrade(self, *words):
        return self.run("regrade", self.book, *words, "--course", self.course.root)

    def shown(self):
        return self.run("status", self.book, "--course", self.course.root)[1]

    def batch(self, chosen):
        words = ["--device", chosen["device"], "--isolation", chosen["isolation"]]
        words += ["--seed", chosen["seed"]]
        if chosen["problems"] != EVERY:
            words += [word for name in chosen["problems"] for word in ("--only", name)]
        course = ("--course", self.course.root)
        return self.run("batch", self.folder, "--gradebook", self.book, *course, *words)

    def grades(self):
        """Each student's state and points, and the setups that count."""
        with gradebook.reading(self.book) as book:
            found = Class(book, self.course).standings()
            counting = {d: book.setups.get(number) for d, number in book.setups.in_force().items()}
            return {one.student.id: (one.state, one.points) for one in found}, counting

    def assert_nobody_lost_a_grade(self):
        states = {state for state, _ in self.grades()[0].values()}
        assert states == {State.GRADED}


# `make test` runs one change from each setup, and at least one to each setup.
CHANGES = [
    pytest.param(had, asked, marks=[] if (i + j) % 32 == 0 else pytest.mark.proof)
    for i, had in enumerate(HAD)
    for j, asked in enumerate(ASKED)
]


@pytest.mark.parametrize(("had", "asked"), CHANGES)
def test_each_message_names_commands_that_lead_to_the_setup_asked_for(class_, had, asked):
    class_.has(*had)
    before = class_.grades()
    assert {state for state, _ in before[0].values()} == {State.GRADED}
    for _ in range(2):
        code, said = class_.batch(asked)
        class_.assert_nobody_lost_a_grade()
        if code == 0:
            break
        assert code == 2, said
        commands = [c for c in re.findall("`grader (regrade .*?)`", said) if "--undo" not in c]
        assert commands, said
        assert class_.grades() == before
        for command in commands:
            code, said = class_.run(*shlex.split(command))
            assert code == 0, (command, said)
            class_.assert_nobody_lost_a_grade()
    assert code == 0, said
    counting = class_.grades()[1]
    assert counting[asked["device"]] == class_.setup(asked), said
    assert len({one.seed for one in counting.values()}) == 1
    while class_.grades() != before:
        assert class_.run("regrade", class_.book, "--undo")[0] == 0


NO_WALL = ("--isolation", "none")
CPU, CUDA = ASKED[0], ASKED[0] | {"device": "cuda", "isolation": "bubblewrap"}


def test_without_a_gpu_nothing_changes(class_):
    class_.has_gpu = False
    assert class_.batch(CUDA)[0] == 2
    assert not class_.book.exists()
    class_.has(CPU)
    before = class_.grades(), class_.book.read_bytes()
    code, said = class_.batch(CUDA)
    assert (code, "there is no GPU" in said) == (2, True)
    assert (class_.grades(), class_.book.read_bytes()) == before
    assert "2 graded" in class_.shown()


@pytest.mark.parametrize("stops", [0, 1])
@pytest.mark.parametrize("command", ["batch", "regrade", "apply"])
def test_a_run_that_stops_hides_no_grade(class_, stops, command):
    class_.has(CPU)
    before = class_.grades()
    class_.stops_after, class_.status = stops, Status.FAILED
    again = (*NO_WALL, "--seed", 7)
    calls = {
        "batch": lambda: class_.batch(CUDA),
        "regrade": lambda: class_.regrade(*again),
        "apply": lambda: class_.regrade(*again, "--apply"),
    }
    assert calls[command]()[0] == 3
    assert class_.grades() == before
    told = class_.shown()
    assert "2 graded" in told
    assert ("a run with --device cuda is under way" in told) == (command == "batch" and stops > 0)
    class_.stops_after = None
    assert calls[command]()[0] == 0
    class_.assert_nobody_lost_a_grade()
    assert (class_.grades() == before) == (command == "regrade")
    assert "under way" not in class_.shown()


def test_a_fault_of_the_grader_on_the_other_device_hides_no_grade(class_):
    """The command exits with 3; points by hand for that student let the other results count."""
    class_.has(CPU)
    before = class_.grades()
    class_.fault = "the GPU was lost"
    code, said = class_.batch(CUDA)
    assert (code, class_.grades()) == (3, before)
    assert "so the old results count: bob" in said
    points = ("--points", 1, "--reason", "read by hand")
    course = ("--course", class_.course.root)
    assert class_.run("override", "bob", "--gradebook", class_.book, *points, *course)[0] == 0
    class_.batch(CUDA)
    assert class_.grades()[1].keys() == {"cpu", "cuda"}
    class_.assert_nobody_lost_a_grade()


def test_before_the_first_grade_any_setup_may_be_chosen(class_):
    class_.stops_after = 0
    class_.assert_nobody_lost_a_grade = lambda: None
    assert class_.batch(CPU)[0] == 3
    class_.stops_after = None
    other = CPU | {"seed": 5}
    assert class_.batch(other)[0] == 0
    assert class_.grades()[1] == {"cpu": class_.setup(other)}


def test_one_device_alone_is_not_applied_after_a_change_of_the_suite(class_):
    class_.has(CPU, CUDA)
    before = class_.grades()
    code, said = class_.regrade(*NO_WALL, "--seed", 3, "--apply")
    assert (code, class_.grades()) == (2, before)
    commands = re.findall("`grader (regrade .*?)`", said)
    assert class_.run(*shlex.split(commands[0]))[0] == 0
    assert class_.grades() == before
    assert class_.run(*shlex.split(commands[1]))[0] == 0
    assert {one.seed for one in class_.grades()[1].values()} == {3}
    assert class_.regrade("--undo")[0] == 0
    assert class_.grades() == before


def test_an_older_gradebook_shows_the_last_setups_that_belong_together(class_):
    """Earlier graders let a regrade on one device count alone, and then nobody had a grade."""
    class_.has(CPU, CUDA)
    before = class_.grades()
    with gradebook.writing(class_.book) as book:
        setup = msgspec.structs.replace(class_.setup(CPU), suite_sha256="00" * 32)
        book.setups.apply(book.setups.number_of(setup), why="regrade")
    assert class_.grades() == before


def test_what_was_undone_comes_back_by_the_command_that_undo_prints(class_):
    """Also after two steps back, without grading anything again."""
    class_.has(CPU)
    states = [class_.grades()]
    for words in (["--seed", 7], ["--only", "relu"]):
        assert class_.regrade(*NO_WALL, *words, "--apply")[0] == 0
        states.append(class_.grades())
    commands = []
    for state in reversed(states[:-1]):
        code, said = class_.regrade("--undo")
        assert (code, class_.grades()) == (0, state)
        commands += re.findall("`grader (regrade .*?)` makes the results that were undone", said)
    assert "changed: the seed: 7, now 0" in said
    code, said = class_.regrade("--undo")
    assert (code, "no regrade was applied, so there is nothing to undo" in said) == (2, True)
    class_.stops_after = 0  # nothing may be graded
    for command, state in zip(reversed(commands), states[1:], strict=True):
        code, said = class_.run(*shlex.split(command))
        assert (code, class_.grades()) == (0, state), said


def test_of_an_older_suite_no_command_is_promised(class_):
    """Its results come back with another undo only, because nothing can grade by it any more."""
    class_.has(CPU)
    with gradebook.writing(class_.book) as book:
        setup = msgspec.structs.replace(class_.setup(CPU), suite_sha256="00" * 32)
        book.setups.apply(book.setups.number_of(setup), why="regrade")
    said = class_.regrade("--undo")[1]
    assert "changed: the suite: 000000000000, now" in said
    assert "undone count again" not in said


def test_a_regrade_without_a_change_names_what_can_be_changed(class_):
    class_.has(CPU | {"problems": ["relu"]})
    code, said = class_.regrade(*NO_WALL)
    assert code == 0
    assert "(only relu, --isolation none, --seed 0)" in said
    assert "--all-problems for all problems" in said


def test_a_gradebook_cannot_take_the_wall_away(class_):
    """Its setup may say that nothing was isolated; no isolation is asked for by its name only."""
    class_.has(CPU)
    code, said = class_.regrade("--seed", 7)
    assert (2, True) == (code, "made without isolation: give --isolation" in said)


def test_status_names_a_regrade_that_stopped(class_):
    """It counts for nobody; the same command goes on, and then nothing more is said."""
    class_.has(CPU)
    class_.stops_after = 1
    assert class_.regrade(*NO_WALL, "--seed", 7)[0] == 3
    said = class_.shown()
    assert "a regrade has graded 1 of 2 submissions so far (the seed: 0, then 7)" in said
    class_.stops_after = None
    assert class_.regrade(*NO_WALL, "--seed", 7)[0] == 0
    assert "a regrade has graded" not in class_.shown()
