"""`grader page` and `grader mistakes` write the expected files and refuse wrong arguments."""

import pytest

from grader.classroom import gradebook
from grader.course import courses
from tests.grader.analysis.samples import class_of, failed, passed

WRONG = [failed("a", "The mistake."), passed("b")]
STUDENTS = {
    f"s{n}": ({"name": f"Ada Nr {n}", "section": "A"}, {"linear": WRONG, "adamw": WRONG})
    for n in range(4)
}


@pytest.fixture
def book(tmp_path):
    path = tmp_path / "class.sqlite"
    with class_of(path, STUDENTS):
        pass
    return path


def test_the_page_links_to_the_students_pages(book, typed, tmp_path):
    out, pages = tmp_path / "pages" / "class.html", tmp_path / "reports of 2"
    out.parent.mkdir()
    typed("export", book, "--html", pages)
    (pages / f"{gradebook.file_name('s3')}.html").unlink()
    code, said, _ = typed("page", book, out, "--reports", pages)
    assert (0, f"wrote {out}: 4 students, 4 tests\n") == (code, said)
    text = out.read_text()
    assert '<a href="../reports%20of%202/s0.html">Ada Nr 0 (s0)</a>' in text
    assert "s3.html" not in text


def test_an_anonymous_page_has_no_name(book, typed, tmp_path):
    out = tmp_path / "class.html"
    assert 0 == typed("page", book, out, "--anonymous")[0]
    text = out.read_text()
    assert "without names" in text
    assert "Ada" not in text
    assert not [n for n in range(4) if f"(s{n})" in text or f">s{n}<" in text]


def test_mistakes_are_printed(book, typed):
    code, said, _ = typed("mistakes", book, "--top", "1")
    assert 0 == code
    lines = [line.split() for line in said.splitlines()]
    cost = str(2 * courses.load().problem("adamw").points)
    assert ["4", cost, "adamw", "§8.2", "The", "mistake."] in lines
    assert "linear" not in said.split("most common mistakes")[1]
