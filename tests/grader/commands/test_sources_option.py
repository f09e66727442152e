"""The folder that programs for finding copies read: JPlag, Dolos, compare50."""

import ast
import csv

import pytest

from grader.base.output_paths import SIDECARS
from grader.classroom import gradebook
from grader.classroom.class_records import Student
from grader.commands.export_options.sources_option import COLUMNS
from grader.course import courses
from grader.submission.submissions import Submission
from tests.grader.in_this_process import DUE, hand_in, of

TEXT = b"\xef\xbb\xbfx = 'as it was handed in'\r\n"
FORMULA = "=2+3"


@pytest.fixture
def book(begun):
    """Ada has two attempts, Eve an id that is no file name and a data file, Zoe nothing."""
    with gradebook.writing(begun) as opened:
        hand_in(opened, "ada", "x = 1")
        opened.attempts.add("ada", "ada.zip", of("x = 2"), submitted_at=DUE.replace(hour=13))
        paths = ("assignment/deep/a.py", "assignment/vocab.json", "../b.py")
        opened.students.enrol([Student(id="../eve", name=FORMULA, section="B"), Student(id="zoe")])
        opened.attempts.add("../eve", "eve.zip", Submission("eve", dict.fromkeys(paths, TEXT), []))
    return begun


def texts_in(folder):
    files = [path for path in folder.rglob("*") if path.is_file()]
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}


def test_each_student_has_a_folder_of_the_modules_that_count(book, tmp_path, typed):
    """A gradebook with other paths, which no grader wrote, writes nowhere else."""
    out = tmp_path / "deep" / "out"
    assert (0, f"wrote {out}\n") == typed("export", book, "--sources", out)[:2]
    ada, given = "class/ada/assignment/adamw.py", "given/given.py"
    eve = f"class/{gradebook.file_name('../eve')}/assignment/deep/a.py"
    found = texts_in(tmp_path)
    assert (b"x = 2", TEXT) == (found[f"deep/out/{ada}"], found[f"deep/out/{eve}"])
    written = {f"deep/out/{path}" for path in (ada, eve, given, "info.csv")}
    assert found.keys() - written <= {f"{book.name}{ending}" for ending in ("", *SIDECARS)}
    with (out / "info.csv").open(newline="") as file:
        header, *rows = csv.reader(file, strict=True)
    assert header == [*COLUMNS]
    assert rows == [
        [given, "", "", "", "true"],
        [eve, f"'{FORMULA} (../eve)", "B", "", ""],
        [ada, "ada", "A", "2026-10-02T13:00:00+00:00", ""],
    ]


def test_all_code_that_students_get_is_one_module(book, tmp_path, typed):
    """It has stubs, public tests, and the handout's examples without prompts and answers."""
    typed("export", book, "--sources", tmp_path / "out")
    text = (tmp_path / "out" / "given" / "given.py").read_text()
    names = {node.name for node in ast.walk(ast.parse(text)) if isinstance(node, ast.FunctionDef)}
    course = courses.load()
    stubs = {name for problem in course.problems for name in problem.functions if name.islower()}
    assert stubs <= names
    assert len([name for name in names if name.startswith("test_")]) > 50
    assert "from assignment.tensor_memory import shares_storage\nx = torch.arange(12)" in text


def test_a_folder_with_files_is_refused_and_stays(book, tmp_path, typed):
    """Files of another class would be compared as students of this one."""
    out = tmp_path / "out"
    out.mkdir()
    assert 0 == typed("export", book, "--sources", out)[0]
    before = texts_in(tmp_path)
    code, _, said = typed("export", book, "--csv", tmp_path / "table.csv", "--sources", out)
    assert (2, before) == (code, texts_in(tmp_path))
    assert "expected an empty folder or a new one" in said
