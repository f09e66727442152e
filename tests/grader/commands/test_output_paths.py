"""No command overwrites what it reads, and a refused command changes nothing."""

import os
import shutil
import sqlite3
import sys
import tempfile
import zipfile
from contextlib import closing
from functools import cache
from pathlib import Path

import pytest
import typer

from grader.base import interrupts, output_paths
from grader.base.errors import Status, UsageError
from grader.base.output_paths import Named, Writes
from grader.classroom import setups
from grader.commands import cli
from grader.commands.cli import command_line
from grader.commands.parameters import documented, parameters_of
from grader.course.courses import load
from grader.report import json_report
from grader.report.report_contents import Reported
from tests.grader.in_this_process import hand_in, new_book, of, result_of
from tests.grader.sampling import every

PROBLEM = "relu"
SOURCE = "def relu(x):\n    return x\n"
# A correct call of each command; the words in capitals are paths in the folder of the test.
CALLS = {
    "grade": ["SUBMISSION", "--only", PROBLEM],
    "merge": ["CPU", "GPU"],
    "new": ["ABSENT"],
    "stubs": [],
    "validate": ["--only", PROBLEM, "--draft"],
    "release": ["student", "OUT"],
    "autograde": ["HOME"],
    "isolation": [],
    "queue": [],
    "batch": ["FOLDER", "--gradebook", "BOOK", "--only", PROBLEM],
    "status": ["BOOK"],
    "show": ["ada", "--gradebook", "BOOK"],
    "override": ["ada", "--gradebook", "BOOK", "--points", "1", "--reason", "read"],
    "extend": ["ada", "--gradebook", "BOOK", "--until", "2026-10-09T12:00:00Z", "--reason", "ill"],
    "merge-students": ["ada", "--gradebook", "BOOK", "--into", "eve", "--reason", "twice"],
    "rename-student": ["ada", "--gradebook", "BOOK", "--id", "a1", "--reason", "typo"],
    "remove-student": ["ada", "--gradebook", "BOOK", "--reason", "left"],
    "regrade": ["BOOK"],
    "diff": ["BOOK"],
    "export": ["BOOK", "--csv", "TABLE"],
    "comment": ["ada", "--gradebook", "BOOK", "--text", "well done"],
    "request": [
        *("ada", "--gradebook", "BOOK", "--problem", "adamw", "--test", "test_steps"),
        *("--text", "it works on my machine"),
    ],
    "push": ["canvas", "BOOK", "--assignment", "http://localhost:1/courses/1/assignments/2"],
    "answer": ["1", "--gradebook", "BOOK", "--accept", "--reason", "read"],
    "page": ["BOOK", "OUT"],
    "mistakes": ["BOOK"],
}
COMMANDS = {c.name or c.callback.__name__: c.callback for c in command_line().registered_commands}
# Values that are refused for a parameter of each kind, whatever the command does with it.
WRONG = {
    Path: ["ABSENT/x", "SUBMISSION/x", "x" * 300],
    int: ["x", "0"],
    float: ["x", "-1"],
    str: ["no such value"],
    list[str]: ["no such value"],
}
# Parameters for which every text, or every number, is right.
FREE = {"--reason", "--text", "--name", "--id"}
# Options without a limit: a seed may be any number.
ZERO_IS_RIGHT = {"--seed", "--points"}


def kinds(parameter):
    members = (parameter.kind, *getattr(parameter.kind, "__args__", ()))
    return [kind for kind in WRONG if kind in members]


def wrong_values():
    """Each command with each value that it has to refuse, as (command, parameter, value)."""
    for name, function in COMMANDS.items():
        for parameter in parameters_of(function):
            if parameter.name in FREE or (parameter.name == "STUDENT" and name == "batch"):
                continue
            for kind in kinds(parameter):
                for value in WRONG[kind]:
                    makes = parameter.writes and parameter.writes.suffix and value == "ABSENT/x"
                    if not makes and not (value == "0" and parameter.name in ZERO_IS_RIGHT):
                        yield name, parameter, value


WRONG_VALUES = list(wrong_values())


@pytest.fixture(scope="module")
def course(root, tmp_path_factory):
    return shutil.copytree(
        root / "examples" / "tiny_course", tmp_path_factory.mktemp("c") / "course"
    )


@pytest.fixture
def places(course, tmp_path):
    """The paths of CALLS: submissions, results and a graded gradebook."""
    files = (
        "SUBMISSION=ada.zip FOLDER=handed_in HOME=home CPU=cpu.json GPU=gpu.json BOOK=class.sqlite "
        "TABLE=table.csv OUT=out.zip ABSENT=absent"
    )
    pairs = (word.split("=") for word in files.split())
    found = {name: tmp_path / file for name, file in pairs}
    found["FOLDER"].mkdir()
    (found["HOME"] / "results").mkdir(parents=True)
    for path in (found["SUBMISSION"], found["FOLDER"] / "ada.zip"):
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("assignment/activations.py", SOURCE)
    for device in ("cpu", "gpu"):
        found[device.upper()].write_text(json_report.render(Reported(result_of(of(SOURCE)))))
    found["BOOK"].write_bytes(_graded(course))
    return found | {"COURSE": course}


@cache
def _graded(folder):
    course = load(folder)
    problems = [course.problem(PROBLEM)]
    today = setups.of_today(course, problems, device="cpu", isolation="none", seed=0)
    with tempfile.TemporaryDirectory() as made:
        path = Path(made) / "class.sqlite"
        with new_book(path, today) as book:
            hand_in(book, "ada", SOURCE, None, setup_1=Status.PASSED)
            (attempt,) = book.attempts.all()
            about = {"problem": "adamw", "test": "test_steps", "evidence": "x", "text": "y"}
            book.feedback.request(attempt, 1, **about)
        return path.read_bytes()


def contents(folder):
    """The logical content of each gradebook in a folder, and the bytes of each other file."""
    found = {}
    for path in sorted(folder.rglob("*")):
        if path.suffix == ".sqlite":
            with closing(sqlite3.connect(path)) as database:
                found[path.name] = list(database.iterdump())
        elif path.is_file() and not path.name.startswith("class.sqlite"):
            found[str(path)] = path.read_bytes()
    return found


@pytest.fixture
def call(monkeypatch, places):
    """Run a command in this process; return its exit code and its last sentence."""
    monkeypatch.delenv("CANVAS_TOKEN", raising=False)

    def run(name, *arguments):
        words = [str(places.get(word, word)) for word in (name, *arguments)]
        words[1:1] = ["--course", str(places["COURSE"])]
        monkeypatch.setattr(sys, "argv", ["grader", *words])
        monkeypatch.setattr(interrupts, "stop_if_seen", lambda: None)
        return cli._run()

    return run


def of_path(places, value):
    """A value of WRONG, with the folder of the test in place of the words in capitals."""
    folder, slash, name = value.partition("/")
    return str(places[folder] / name) if slash else str(places.get(value, value))


def place_of(name, parameter):
    """The place of an argument among the words of a command."""
    arguments = [one.name for one in parameters_of(COMMANDS[name]) if not one.options]
    return arguments.index(parameter.name)


def with_value(name, parameter, value, words=None):
    """A correct call of a command, but with another value for one parameter."""
    words = list(words or CALLS[name])
    if not parameter.options:
        count = sum(not one.options for one in parameters_of(COMMANDS[name]))
        given = sum(not word.startswith("--") for word in words[:count])
        place = place_of(name, parameter)
        words[place : place + (place < given)] = [value]
    elif parameter.options[0] in words:
        words[words.index(parameter.options[0]) + 1] = value
    else:
        words += [parameter.options[0], value]
    return words


def test_every_command_has_a_call_here():
    assert COMMANDS.keys() == CALLS.keys()


def test_every_parameter_has_a_help_and_every_help_a_parameter():
    """An option's help is in the docstring of its command, where a name may be misspelled."""
    commands = typer.main.get_command(command_line()).commands
    for name, function in COMMANDS.items():
        assert [] == [one.name for one in commands[name].params if not one.help], name
        described = documented(function)[1].keys()
        assert described <= {one.key for one in parameters_of(function)}, name


@pytest.mark.parametrize(
    ("name", "parameter", "value"),
    every(6, WRONG_VALUES),
    ids=[f"{name}-{parameter.name}-{value:.12}" for name, parameter, value in WRONG_VALUES],
)
def test_a_refused_value_changes_nothing(
    call, places, tmp_path, capsys, monkeypatch, name, parameter, value
):
    monkeypatch.setenv("CANVAS_TOKEN", "x")  # with a right value, `push` would ask Canvas
    before = contents(tmp_path), contents(places["COURSE"])
    code, said = call(name, *with_value(name, parameter, of_path(places, value)))
    printed = capsys.readouterr()
    assert code == 2, said
    assert "Traceback" not in said + printed.err
    assert printed.out == ""
    assert (contents(tmp_path), contents(places["COURSE"])) == before


NO_GPU = not Path("/dev/nvidiactl").exists()
WITH_DEVICES = [
    name
    for name, function in COMMANDS.items()
    if "--device" in [one.name for one in parameters_of(function)] and name != "diff"
]


@pytest.mark.skipif(not NO_GPU, reason="this machine has a GPU")
@pytest.mark.parametrize("name", WITH_DEVICES)
def test_a_gpu_that_is_not_there_changes_nothing(call, tmp_path, name):
    before = contents(tmp_path)
    code, said = call(name, *CALLS[name], "--device", "cuda")
    assert (code, contents(tmp_path)) == (2, before), said


def test_a_batch_without_a_box_makes_no_gradebook(call, places, tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    before = contents(tmp_path)
    batch = ("batch", "FOLDER", "--gradebook", "ABSENT", "--only", PROBLEM)
    ended, said = call(*batch, "--isolation", "bubblewrap")
    assert (ended, contents(tmp_path), places["ABSENT"].exists()) == (3, before, False), said


def pairs():
    """Each output of each command with each input, as (command, output, input)."""
    for name, function in COMMANDS.items():
        paths = [one for one in parameters_of(function) if one.is_path]
        for output in paths:
            if output.writes:
                for other in paths:
                    if not other.writes:
                        yield name, output, other


PAIRS = list(pairs())


def other_names(path, tmp_path):
    """A file's path, and other names of the same file."""
    linked, hard = tmp_path / "linked", tmp_path / "hard"
    linked.symlink_to(path)
    if path.is_file():
        hard.hardlink_to(path)
    relative = Path(os.path.relpath(path))
    round_about = path.parent / "absent" / ".." / path.name
    (path.parent / "absent").mkdir()
    return [path, linked, relative, round_about, *([hard] if path.is_file() else [])]


@pytest.mark.parametrize(
    ("name", "output", "other"),
    every(6, PAIRS),
    ids=[f"{name}-{output.name}-{other.name}" for name, output, other in PAIRS],
)
def test_an_output_never_overwrites_an_input(call, places, tmp_path, name, output, other):
    """A file is refused under each of its names, and so is any file in a folder that is read."""
    if other.name == "--course":
        read = places["COURSE"] / "tests"
        words = CALLS[name]
        expected = "the course's"
    else:
        words, read, expected = _with_input(name, other, places, tmp_path), None, other.name
        at = words.index(other.options[0]) + 1 if other.options else place_of(name, other)
        read = Path(places.get(words[at], words[at]))
    suffix = output.writes.suffix
    folder = read if read.is_dir() else tmp_path
    tries = [folder / "new", folder / "new" / "er"] if read.is_dir() else []
    if not suffix:
        tries += other_names(read, tmp_path) if read.is_file() else []
    elif read.is_file():
        renamed = read.with_suffix(f".{suffix}")
        read.rename(renamed)
        same = (read, str(read))
        words = [str(renamed) if places.get(word, word) in same else word for word in words]
        tries += [tmp_path]
    before = contents(tmp_path), contents(places["COURSE"])
    for path in tries:
        code, said = call(name, *with_value(name, output, str(path), words))
        assert code == 2, said
        refused = "cannot be written: there is no folder" in said or "it is a folder" in said
        assert refused or (output.name in said and expected in said), said
    assert tries
    assert (contents(tmp_path), contents(places["COURSE"])) == before


def _with_input(name, other, places, tmp_path):
    """A call of a command that has this input."""
    words = list(CALLS[name])
    if other.options and other.options[0] not in words:
        path = tmp_path / "an_input"
        if other.name in ("--handout", "--wheels"):
            path.mkdir()
        else:
            path.write_text("id\nada\n")
        words += [other.options[0], str(path)]
    return words


TWO_OUTPUTS = [
    (name, one, other)
    for name, function in COMMANDS.items()
    for one in parameters_of(function)
    for other in parameters_of(function)
    if one.writes and other.writes and one.name < other.name
]


@pytest.mark.parametrize(
    ("name", "one", "other"),
    every(6, TWO_OUTPUTS),
    ids=[f"{name}-{one.name}-{other.name}" for name, one, other in TWO_OUTPUTS],
)
def test_two_outputs_never_have_one_name(call, places, tmp_path, name, one, other):
    """Files, folders of such files, and names that differ in case, one file on some systems."""
    names = {key: tmp_path / f"out.{key}" for key in ("first", "FIRST")}
    first, second = names["first"], names["FIRST"]
    if one.writes.suffix and other.writes.suffix:
        if one.writes.suffix != other.writes.suffix:
            return
    elif one.writes.suffix or other.writes.suffix:
        suffix = one.writes.suffix or other.writes.suffix
        first = tmp_path if one.writes.suffix else tmp_path / f"ada.{suffix}"
        second = tmp_path if other.writes.suffix else tmp_path / f"ada.{suffix}"
    before = contents(tmp_path)
    words = with_value(name, one, str(first))
    code, said = call(name, *with_value(name, other, str(second), words))
    assert (code, one.name in said, other.name in said) == (2, True, True), said
    assert contents(tmp_path) == before


@pytest.mark.parametrize("name", ["report.html", "assignment/report.html", "helper.py", "s.zip"])
def test_only_a_report_may_lie_in_the_folder_of_a_submission(tmp_path, name):
    """Nothing reads a report there; next to the modules, it could be taken for one of them."""
    folder = tmp_path / "mine"
    (folder / "assignment").mkdir(parents=True)
    output = [(Named("--html", folder / name), Writes())]
    inputs = [Named("SUBMISSION", folder)]
    if name == "report.html":
        output_paths.check(output, inputs, [])
    else:
        with pytest.raises(UsageError, match="is inside SUBMISSION"):
            output_paths.check(output, inputs, [])


WRITTEN = {
    "grade": "--json --gradescope --markdown --html",
    "merge": "--json --gradescope --markdown --html",
    "batch": "--gradebook",
    "export": "--csv --canvas --gradescope --markdown --html --late-days --classroom50 "
    "--classroom50-results --sources",
    "mistakes": "--draft",
    "new": "FOLDER",
    "page": "OUT.html",
    "release": "OUT.zip",
    "validate": "--matrix",
}
READ = {
    *("SUBMISSION", "FOLDER", "HOME", "GRADEBOOK", "CPU.json", "GPU.json", "NEW.json", "--course"),
    *("--policy", "--roster", "--gradebook", "--gradescope", "--from"),
    *("--handout", "--wheels", "--token-file", "--canvas-export", "--classroom50-scores"),
}


def test_every_option_that_names_a_file_to_write_has_the_mark():
    """Whoever adds an option with a path has to say here whether the path is written."""
    for name, function in COMMANDS.items():
        written = set(WRITTEN.get(name, "").split())
        paths = [one for one in parameters_of(function) if one.is_path]
        assert written == {one.name for one in paths if one.writes}, name
        assert READ | written >= {one.name for one in paths}, name
