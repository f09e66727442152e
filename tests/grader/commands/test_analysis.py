"""`grader page` and `grader mistakes` write the expected files and refuse wrong arguments."""

import sys

import pytest

from grader.classroom import gradebook
from grader.commands import cli
from grader.course import courses
from tests.grader.analysis.samples import class_of, failed, passed

WRONG = [failed("a", "The mistake."), passed("b")]
STUDENTS = {
    f"s{n}": ({"name": f"Ada Nr {n}", "section": "A"}, {"linear": WRONG, "adamw": WRONG})
    for n in range(4)
}


@pytest.fixture
def book(tmp_path):
    """A gradebook of four students with the same mistakes."""
    path = tmp_path / "class.sqlite"
    with class_of(path, STUDENTS):
        pass
    return path


@pytest.fixture
def grader(monkeypatch, capsys):
    """Run a command in this process; return its exit code, its output and its last sentence."""

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["grader", *map(str, arguments)])
        code, text = cli._run()
        return code, capsys.readouterr().out, text

    return run


def test_the_page_links_to_the_students_pages(book, grader, tmp_path):
    """The page links only to student pages that exist."""
    out, pages = tmp_path / "pages" / "class.html", tmp_path / "reports of 2"
    out.parent.mkdir()
    grader("export", book, "--html", pages)
    (pages / f"{gradebook.file_name('s3')}.html").unlink()
    code, said, _ = grader("page", book, out, "--reports", pages)
    assert (0, f"wrote {out}: 4 students, 4 tests\n") == (code, said)
    text = out.read_text()
    assert '<a href="../reports%20of%202/s0.html">Ada Nr 0 (s0)</a>' in text
    assert "s3.html" not in text


def test_an_anonymous_page_has_no_name(book, grader, tmp_path):
    """An anonymous page contains no student's name or id."""
    out = tmp_path / "class.html"
    assert 0 == grader("page", book, out, "--anonymous")[0]
    text = out.read_text()
    assert "without names" in text
    assert "Ada" not in text
    assert not [n for n in range(4) if f"(s{n})" in text or f">s{n}<" in text]


def test_what_cannot_be_written_is_refused_in_a_sentence(book, grader, tmp_path):
    """The command refuses in one sentence and never overwrites a file."""
    for arguments, words in [
        (
            (book, tmp_path / "x.html", "--anonymous", "--reports", tmp_path),
            "the reports contain names",
        ),
        ((book, tmp_path / "x.html", "--reports", tmp_path / "no"), "expected the folder that"),
        ((book, book), f"OUT.html {book} would overwrite GRADEBOOK {book}: name another file"),
        ((book, tmp_path), "it is a folder"),
        ((tmp_path / "none.sqlite", tmp_path / "x.html"), "none.sqlite"),
    ]:
        code, said, text = grader("page", *arguments)
        assert (2, "") == (code, said), text
        assert words in text
    assert not (tmp_path / "x.html").exists()


def test_mistakes_are_printed(book, grader):
    """For each problem, the command prints how many students made each mistake."""
    code, said, _ = grader("mistakes", book, "--top", "1")
    assert 0 == code
    lines = [line.split() for line in said.splitlines()]
    assert [
        "4",
        str(2 * courses.load().problem("adamw").points),
        "adamw",
        "§8.2",
        "The",
        "mistake.",
    ] in lines
    assert "linear" not in said.split("most common mistakes")[1]
