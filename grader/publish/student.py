"""Bundles to hand out: an allow-list of files, the same bytes whenever they are made, and nothing secret in them.

Secret is each telling line of a solution, a hidden test, a wrong solution or a variant. One such line in a bundle, and
nothing is written. A line that a public file shares with a secret one by coincidence is listed, by a person, in
bundle/shared_lines.txt.
"""

import html
import io
import re
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from grader.course import Course, Problem
from grader.errors import ReleaseRefused
from grader.figures import without_marks
from grader.publish import stubs
from grader.solutions import mistakes
from grader.solutions.regions import lines_of

TIME = (2020, 1, 1, 0, 0, 0)
SHORTEST = 16  # characters; shorter lines (`return loss`, `else:`) are in every program
ON_THE_GRADERS_SIDE = {"tests/probes/benchmark.py"}
TELLS_NOTHING = re.compile(r"import |from \S+ import |@|class |(async )?def |#|\)")


@dataclass(frozen=True)
class Leak:
    """A secret line in a file that was to leave."""

    path: str
    number: int
    line: str
    secret: str  # where the line is from

    def __str__(self) -> str:
        return f"{self.path}:{self.number} is a line of {self.secret}: {self.line}"


def student(course: Course, built: Path) -> dict[str, bytes]:
    """The files of the student's bundle, by their path in it.

    Args:
        course: What is handed out.
        built: The folder with the built handout: site/, handout.pdf and made_from.

    Raises:
        ReleaseRefused: A stub has drifted from its reference, a secret line would leave, or the built handout is missing or of
            another text.
    """
    if drifted := stubs.drifted(course):
        raise ReleaseRefused(
            f"{drifted[0].relative_to(course.root)} differs from its reference: run `grader stubs` first"
        )
    is_built = (course.handout / "conf.py").is_file()  # otherwise its Markdown is all that there is
    files = {path: _given(course.root / path) for path in _of_students(course)}
    files |= _below(course.bundle / "student")
    files |= _handout(built) if is_built else {}
    if found := leaks(files, secrets(course)):
        raise ReleaseRefused(
            f"{len(found)} secret line{'s' if len(found) > 1 else ''} would leave:\n"
            + "\n".join(f"  {leak}" for leak in found[:20])
            + "\nchange the line; a coincidence goes into bundle/shared_lines.txt"
        )
    if is_built and (built / "made_from").read_text(encoding="utf-8") != course.handout_sha256():
        raise ReleaseRefused(
            f"{built} was built from another state of the handout: run `make handout` again"
        )
    return dict(sorted(files.items()))


def _given(path: Path) -> bytes:
    """A file as students get it: a page of the handout without the marks of its figures."""
    content = path.read_bytes()
    return (
        without_marks(content.decode("utf-8")).encode("utf-8") if path.suffix == ".md" else content
    )


def _below(folder: Path) -> dict[str, bytes]:
    """Every file of a folder and of those in it, hidden ones too: a workflow lies in .github/."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


def _handout(built: Path) -> dict[str, bytes]:
    """The site, and the PDF where there is one."""
    if not (built / "made_from").is_file():
        raise ReleaseRefused(f"the handout is not built in {built}: run `make handout` first")
    files = [
        path for path in [built / "handout.pdf", *(built / "site").rglob("*")] if path.is_file()
    ]
    return {f"handout/{path.relative_to(built).as_posix()}": path.read_bytes() for path in files}


def _of_students(course: Course) -> list[str]:
    """What of the course students get, as paths below its root."""
    given = ["assignment/__init__.py", "assignment/__main__.py", "assignment/problems.toml"]
    given += [f"assignment/{module}.py" for module in course.modules]
    given += ["tests/__init__.py", "tests/conftest.py", "tests/expect.py"]
    given += [f"tests/public/test_{problem.id}.py" for problem in course.problems]
    for folder, pattern in [
        ("tests/student_side", "*.py"),
        ("tests/probes", "*.py"),
        ("handout", "*.md"),
    ]:
        given += [
            path.relative_to(course.root).as_posix()
            for path in (course.root / folder).glob(pattern)
        ]
    return sorted(set(given) - ON_THE_GRADERS_SIDE)


def zipped(files: dict[str, bytes]) -> bytes:
    """A zip of some files: the same bytes for the same files, on any machine (so nothing is compressed)."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for path, content in sorted(files.items()):
            info = zipfile.ZipInfo(path, TIME)
            info.create_system = 3  # Unix, wherever it is made
            info.external_attr = 0o100644 << 16
            archive.writestr(info, content)
    return buffer.getvalue()


# --- what must not leave ------------------------------------------------------------------------------------------------


def secrets(course: Course) -> dict[str, str]:
    """Every telling line of what students must not see, without its indentation, and where it is from."""
    listed = course.bundle / "shared_lines.txt"
    shared = set(listed.read_text(encoding="utf-8").splitlines()) if listed.is_file() else set()
    found: dict[str, str] = {}
    for path in sorted(course.reference.glob("*.py")):
        solution = lines_of(path.read_text(encoding="utf-8")).values()
        found |= dict.fromkeys(_telling("\n".join(solution)), f"the solution of {path.stem}")
    for folder, kind in [(course.tests / "hidden", "hidden test"), (course.variants, "variant")]:
        for path in sorted(folder.rglob("*.py")):
            where = f"the {kind} {path.relative_to(folder).with_suffix('').as_posix()}"
            for line in _telling(path.read_text(encoding="utf-8")):
                found.setdefault(line, where)
    for problem in course.problems:
        for line, name in _of_mistakes(course, problem):
            found.setdefault(line, f"the wrong solution {problem.id}/{name}")
    return {line: where for line, where in found.items() if line not in shared}


def _of_mistakes(course: Course, problem: Problem) -> Iterator[tuple[str, str]]:
    """The lines of a problem's wrong solutions that the reference lacks, and what is said about them; each with a name."""
    reference = course.reference_of(problem)
    given = set(_telling(reference))
    for mistake in mistakes.load(course.mistakes, problem.id):
        lines = _telling(
            "\n".join([mistake.says, mistake.hint or "", mistake.applied_to(reference)])
        )
        yield from ((line, mistake.name) for line in lines if line not in given)


def leaks(files: dict[str, bytes], secret: dict[str, str]) -> list[Leak]:
    """Every secret line in these files."""
    return [
        Leak(path, number, line.strip(), secret[line.strip()])
        for path, content in files.items()
        for number, line in enumerate(_text(path, content).splitlines(), 1)
        if line.strip() in secret
    ]


def _text(path: str, content: bytes) -> str:
    """What a file says: of a page, what is read on it."""
    text = content.decode("utf-8", errors="replace")
    return html.unescape(re.sub(r"<[^>]*>", "", text)) if path.endswith(".html") else text


def _telling(source: str) -> Iterator[str]:
    """The lines of a source that give something away: not those that any program has."""
    for line in map(str.strip, source.splitlines()):
        if len(line) >= SHORTEST and not TELLS_NOTHING.match(line) and re.search(r"[A-Za-z]", line):
            yield line
