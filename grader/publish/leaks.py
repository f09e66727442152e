"""What must not leave: every telling line of a solution, a hidden test, a wrong solution or a variant.

A line that a public file shares with a secret one by coincidence is listed, by a person, in bundle/shared_lines.txt.
"""

import html
import re
from collections.abc import Iterator
from dataclasses import dataclass

from grader.course import Course, Problem
from grader.solutions import mistakes
from grader.solutions.regions import lines_of

SHORTEST = 16  # characters; shorter lines (`return loss`, `else:`) are in every program
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
