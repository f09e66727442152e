"""The texts of a bundle are for students, and their commands can be pasted."""

import html
import re
from pathlib import Path

import pytest

from grader.course import courses
from grader.publish import student_bundle

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("bundle")]

ROOT = Path(__file__).resolve().parents[3]
COURSES = (".", "examples/tiny_course", "examples/kernels")
TARGETS = re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
OURS = ("grader", "scripts", "examples", "benchmarks", "docs", "solutions")
# A path of the repository, or of a staff's folder in another course.
PATH = re.compile(
    rf"(?<![\w./-])(?:(?:{'|'.join(OURS)}|tests/(?:hidden|grader|handout))/[\w<>./*-]+"
    r"|(?:README|ARCHITECTURE|CONTRIBUTING|SECURITY|CHANGELOG)\.md|Makefile)"
)
COMMAND = re.compile(rf"`(?:\S*/)?(grader [a-z]+|make (?:{'|'.join(TARGETS)}))\b")
ADDRESS = re.compile(
    r"\b((?i:each course (?:replaces|writes|has)|replaces? this|your (?:own )?students"
    r"|your course will|your teaching assistants|roster|gradebook|for (?:the )?staff)|ADDRESS)\b"
)


def texts(files):
    """The lines of every text in a bundle, with their place; a page's without its tags."""
    for path, content in sorted(files.items()):
        if not path.endswith((".md", ".py", ".toml", ".yml", ".html", ".ipynb", ".txt")):
            continue
        text = content.decode()
        if path.endswith(".html"):
            text = html.unescape(re.sub(r"<[^>]*>", "", text))
        for number, line in enumerate(text.splitlines(), 1):
            yield f"{path}:{number}", line


def for_the_staff(line, files):
    """What a line says to the staff: paths that the bundle lacks, commands, and addresses."""
    found = [name for name in PATH.findall(line) if name.rstrip("/.") not in files]
    return [*found, *COMMAND.findall(line), *ADDRESS.findall(line)]


@pytest.fixture(scope="module", params=COURSES)
def files(request):
    """The bundle of a course, without the built handout, whose pages are the Markdown."""
    return student_bundle.student(courses.load(ROOT / request.param), None)


def test_nothing_in_a_bundle_is_said_to_the_staff(files):
    found = {place: said for place, line in texts(files) if (said := for_the_staff(line, files))}
    assert found == {}


def test_each_block_of_commands_can_be_pasted(files):
    """It has no comments, which the shell of macOS passes to the command as arguments."""
    pages = [content.decode() for path, content in files.items() if path.endswith(".md")]
    blocks = [
        block
        for page in pages
        for block in re.findall(r"^```(?:sh|powershell|text)?\n(.*?)^```$", page, re.M | re.S)
        if re.search(r"^(?:!?python3?|py|pip|uv) ", block, re.MULTILINE)
    ]
    assert blocks
    assert [block for block in blocks if re.search(r"(?:^| )# ", block, re.MULTILINE)] == []


@pytest.mark.parametrize("files", ["."], indirect=True)
def test_the_markdown_leaves_without_the_marks_of_its_figures(files):
    """Without the built handout, students read the Markdown as plain text, without these marks."""
    pages = {
        path: content
        for path, content in files.items()
        if path.endswith(".md") and path.startswith("handout/")
    }
    assert b"keeps 8 of 16 bytes" in pages["handout/08_optimizers.md"]
    assert [path for path, content in pages.items() if b"]{#" in content] == []
