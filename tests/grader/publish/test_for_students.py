"""The texts of a bundle are for students, and each command has one form in all texts."""

import html
import re
import tomllib
from pathlib import Path

import pytest

from grader.course import courses
from grader.publish import bundles

ROOT = Path(__file__).resolve().parents[3]
COURSES = (".", "examples/tiny_course", "examples/byte_pairs")
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
# A command in code: at the start of a line, or after a backtick.
BARE_PYTEST = re.compile(r"(?:^\s*\$? ?|`)pytest (?:-|\w+/|\w+\.py)[^`\n]*")
OF_A_PROBLEM = re.compile(r"pytest [^`\n]*-k (?:(\w+|<[\w ]+>)(?!\S*\")|\"(\w+)\")")
PIP = re.compile(r"(?:^\s*|`)pip3? install[^`\n]*")


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
    return bundles.student(courses.load(ROOT / request.param), None)


@pytest.mark.slow
def test_nothing_in_a_bundle_is_said_to_the_staff(files):
    found = {place: said for place, line in texts(files) if (said := for_the_staff(line, files))}
    assert found == {}


def other_forms(line, problems):
    """The commands in a line that have another form than in all other texts."""
    found = [*BARE_PYTEST.findall(line), *PIP.findall(line)]
    named = ("".join(groups) for groups in OF_A_PROBLEM.findall(line))
    return found + [name for name in named if name in problems or name.startswith("<prob")]


def problems_of(files):
    """The ids of the problems in a bundle."""
    listed = tomllib.loads(files["assignment/problems.toml"].decode())["problem"]
    return {problem["id"] for problem in listed}


@pytest.mark.slow
def test_a_problem_is_tested_by_the_same_command_everywhere(files):
    """It is `python -m assignment check ID`; a part of one is `python -m pytest … -k`."""
    problems = problems_of(files)
    found = {place: said for place, line in texts(files) if (said := other_forms(line, problems))}
    assert found == {}
    stubs = "".join(files[path].decode() for path in files if path.startswith("assignment/"))
    cited = set(re.findall(r"Handout §[\d.]+ · `python -m assignment check (\w+)`", stubs))
    assert cited == problems


DOCUMENTS = [
    path.relative_to(ROOT).as_posix()
    for pattern in ("*.md", "docs/*.md", "examples/*/README.md", "grader/**/*.md")
    for path in sorted(ROOT.glob(pattern))
    if path.name != "CHANGELOG.md"
]


def test_a_document_has_the_same_commands():
    """The staff's documents call pytest as a module, too."""
    problems = {problem.id for problem in courses.load().problems}
    for document in DOCUMENTS:
        lines = (ROOT / document).read_text(encoding="utf-8").splitlines()
        staffs = "grader/publish/" not in document  # who may call pip as they like
        found = [said for line in lines for said in other_forms(line, problems)]
        assert [said for said in found if not (staffs and PIP.match(said))] == [], document


@pytest.mark.slow
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
