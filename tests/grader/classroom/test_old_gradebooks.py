"""A gradebook that an earlier version wrote opens, and a class continues in it.

The file in `gradebooks/` was written by 0.8.0, the first version with gradebooks and the only one
that was released: `grader batch` of the tiny course with Ada, who solved it, Bob, whose softmax
overflows, and Cyd, whose zip is broken; then 2.5 points by hand for Bob and an extension for Ada.
"""

import gzip
import re
import shlex
import sqlite3
from pathlib import Path

import pytest

from tests.grader.classroom.a_class import SOLVED, hand_in, read_csv_table

WRITTEN = Path(__file__).parent / "gradebooks" / "0.8.0.sqlite.gz"


@pytest.fixture
def book(tmp_path):
    path = tmp_path / "class.sqlite"
    path.write_bytes(gzip.decompress(WRITTEN.read_bytes()))
    assert version_of(path) == 1
    return path


def version_of(path):
    with sqlite3.connect(path) as database:
        (version,) = database.execute("PRAGMA user_version").fetchone()
    database.close()
    return version


@pytest.fixture
def grader(typed, root):
    """Run a command for the tiny course in this process; return its exit code and all it says."""
    return lambda *words: typed.all(*words, "--course", root / "examples" / "tiny_course")


def test_an_old_gradebook_is_read_as_it_is(book, grader, tmp_path):
    before = book.read_bytes()
    code, said = grader("status", book)
    assert (code, "3 students: 2 graded, 1 refused; mean 2.75" in said) == (0, True)
    code, said = grader("show", "bob", "--gradebook", book)
    assert code == 0
    assert "bob: 2.50 of 3; 2.5 by ta: read by hand" in said
    assert re.search(r"softmax +1\.00 / 2", said)
    shown = grader("show", "ada", "--gradebook", book)[1]
    assert "extended to 2026-10-05T12:00:00+00:00 (ill)" in shown
    table, pages = tmp_path / "table.csv", tmp_path / "pages"
    assert grader("export", book, "--csv", table, "--html", pages)[0] == 0
    points = {row["id"]: row["points"] for row in read_csv_table(table.read_text())}
    assert points == {"ada": "3", "bob": "2.5", "cyd": ""}
    page = re.sub("<[^>]*>", "", (pages / "bob.html").read_text())
    assert "e = (x).exp()" in page
    assert book.read_bytes() == before


@pytest.mark.slow
@pytest.mark.usefixtures("grading")
def test_a_class_continues_in_an_old_gradebook(book, grader, tmp_path):
    """The commands that the messages name grade with today's suite, and one goes back."""
    folder = tmp_path / "handed_in"
    folder.mkdir()
    hand_in(folder, "dan", SOLVED)
    batch = ("batch", folder, "--gradebook", book, "--isolation", "none", "--jobs", 1)
    code, said = grader(*batch)
    assert code == 2
    (command,) = [c for c in re.findall("`grader (regrade .*?)`", said) if "--apply" in c]
    words = [word for word in shlex.split(command) if word != "--course"]
    options = [word for word in words if "tiny_course" not in word]
    code, said = grader(*options, "--jobs", 1)
    assert (code, "the new results count" in said) == (0, True), said
    assert "the isolation: bubblewrap, now none" in grader("diff", book)[1]
    code, said = grader(*batch)
    assert (code, "4 students: 3 graded, 1 refused; mean 2.83" in said) == (0, True), said
    code, said = grader("merge-students", "dan", "--into", "cyd", "--gradebook", book)
    assert (code, "cyd: 3.00 of 3" in said) == (0, True), said
    assert grader("regrade", book, "--undo")[0] == 0
    code, said = grader("status", book, "--verbose")
    assert "3 students: 2 graded, 1 not graded; mean 2.75" in said
    assert version_of(book) == 3


def test_a_file_that_only_looks_like_an_old_gradebook_is_refused(book, grader):
    with sqlite3.connect(book) as database:
        database.execute("CREATE VIEW more AS SELECT * FROM student")
    database.close()
    code, said = grader("status", book)
    assert (code, "its tables are not those of a gradebook" in said) == (2, True)
