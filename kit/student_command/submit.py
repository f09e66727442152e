"""The zip to hand in: exactly the Python modules under assignment/ that the grader accepts."""

import os
import re
import sys
import traceback
import warnings
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kit import handing_in
from kit.forbidden_in_source import UNFINISHED, unfinished_merge
from kit.handing_in import Accepted
from kit.safe_text import counted, printable
from kit.student_command.hand_in_warnings import Foreseen, foreseen

LONGEST_SHOWN = 80  # characters of a line that is not Python


class Refused(Exception):
    """The modules cannot be handed in as they are. The message explains why and what to do."""


def main(root: Path, course: dict[str, Any], out: Path, *, anyway: bool = False) -> int:
    """Write the zip and list its contents; return 0, or 2 if the zip would not be accepted.

    Args:
        root: The folder that contains assignment/.
        anyway: Write the zip even if a problem would certainly earn nothing.
    """
    problems: list[dict[str, Any]] = course["problem"]
    needed = [p["module"] for p in problems if p.get("device", "cpu") == "cpu"]
    accepted = handing_in.Accepted(files=tuple(course.get("files", ())))
    try:
        sources, left_out = collect(root, list(dict.fromkeys(needed)), accepted)
        uses = foreseen(sources, course, problems)
        if not anyway:
            _refuse_what_earns_nothing(uses)
        archive = handing_in.zipped(sources)
        write(out, archive)
    except Refused as e:
        print(f"nothing was written: {e}", file=sys.stderr)
        return 2
    print(f"{out}: {counted(len(sources), 'file')}, {len(archive):,} bytes, ready to hand in")
    width = max(len(path) for path in sources)
    for path, source in sources.items():
        print(f"  {path:<{width}}  {len(source):>7,} bytes{_still_to_do(source)}")
    for note in _notes(uses):
        print(f"  note: {note}")
    for path, reason in left_out.items():
        print(f"  left out: {path} ({reason})")
    print(f"sources {handing_in.sha256(sources)[:12]}, as the grader's report will name them")
    return 0


def _refuse_what_earns_nothing(uses: list[Foreseen]) -> None:
    """Tell students before they submit, not only in the report, what would earn nothing.

    Raises:
        Refused: A problem would earn nothing.
    """
    certain = [use for use in uses if use.certain]
    if certain:
        what_to_do = "Write it yourself" if certain[0].status == "forbidden use" else "Change it"
        raise Refused(
            f"{_with_others(certain)}. {what_to_do}, "
            "or hand in as it is with `python -m assignment submit --anyway`"
        )


def _notes(uses: list[Foreseen]) -> Iterator[str]:
    """One for each use; an import that fails is told once, with all problems that it costs."""
    for use in uses:
        same = [u for u in uses if (u.place, u.status) == (use.place, "fails there")] or [use]
        if use is same[0]:
            yield _with_others(same)


def _with_others(uses: list[Foreseen]) -> str:
    """The first use, and the problems of the others."""
    others = ", ".join(use.problem["id"] for use in uses[1:])
    return f"{uses[0]} (so would {others})" if others else str(uses[0])


def collect(
    root: Path, modules: list[str], accepted: Accepted = handing_in.EVERY_COURSE
) -> tuple[dict[str, bytes], dict[str, str]]:
    """Collect the sources to hand in, and the reasons to leave out other files in assignment/.

    Args:
        modules: The course's modules, all of which must exist.
        accepted: What the course accepts beside them.

    Raises:
        Refused: The grader would not accept the sources, or could not run them.
    """
    sources: dict[str, bytes] = {}
    left_out: dict[str, str] = {}
    for file in sorted((root / "assignment").rglob("*")):
        path = file.relative_to(root).as_posix()
        is_ours = path in handing_in.THE_COURSES or "__pycache__" in path
        if is_ours or not file.is_file() or file.name == ".DS_Store":
            continue
        if reason := handing_in.reason_to_leave_out(path, accepted):
            left_out[path] = reason
        else:
            sources[path] = _readable(file, path)
    if why := handing_in.unfit(sources, accepted):
        raise Refused(why)
    missing = [path for path in map(handing_in.path_of, modules) if path not in sources]
    if missing:
        what_to_do = "put it back, unsolved if need be (it is in the course's bundle)"
        raise Refused(f"{missing[0]} is missing; {what_to_do}")
    if (size := sum(map(len, sources.values()))) > handing_in.MAX_BYTES:
        largest = max(sources, key=lambda path: len(sources[path]))
        raise Refused(
            f"the modules are {size:,} bytes, more than {handing_in.MAX_BYTES:,}; "
            f"the largest is {largest}"
        )
    return sources, left_out


@dataclass(frozen=True)
class ParseError:
    """Why a module is not Python."""

    message: str  # what Python says, after the name of the exception
    line: int | None  # None if Python names none
    shown: tuple[str, ...]  # that line, and one with carets below its wrong part, if Python has any

    def at(self, path: str) -> str:
        """The place in a file, as "assignment/linear.py:12"."""
        return f"{path}:{self.line}" if self.line else path


def parse_error(source: bytes) -> ParseError | None:
    """Why a module cannot be compiled; None if it can. No code is run."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # such as those about backslashes
            compile(source, "<module>", "exec", dont_inherit=True)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as e:
        return parse_error_of(e, source)
    return None


def parse_error_of(error: Exception, source: bytes) -> ParseError:
    """What an exception of Python's parser says of a module."""
    message = getattr(error, "msg", None) or str(error)
    line = getattr(error, "lineno", None)
    if begins := unfinished_merge(source, line or 0):
        return ParseError(UNFINISHED, begins, ())
    told = [text[4:].rstrip() for text in traceback.format_exception_only(error)[1:-1]]
    shown = [printable(text, LONGEST_SHOWN) for text in told if text[:LONGEST_SHOWN].strip()]
    return ParseError(message, line, tuple(shown))


def _readable(file: Path, path: str) -> bytes:
    """Read a module and check that Python can parse it.

    Raises:
        Refused: The module cannot be read or parsed.
    """
    try:
        source = file.read_bytes()
    except OSError as e:
        raise Refused(f"{path} cannot be read: {e.strerror}") from None
    if path.endswith(".py") and (error := parse_error(source)):
        raise Refused(
            f"{error.at(path)} is not Python: {error.message}; all of its problems would earn 0"
            + "".join(f"\n  {line}" for line in error.shown)
        )
    return source


def write(out: Path, content: bytes) -> None:
    """Write a file completely or not at all, even after Ctrl-C.

    Raises:
        Refused: The file cannot be written.
    """
    if out.is_dir():
        raise Refused(f"{out} is a folder; name a file in it")
    partial = out.with_name(f".{out.name}.partial")
    try:
        with partial.open("wb") as f:
            f.write(content)
            f.flush()
            os.fsync(f.fileno())
        partial.replace(out)
    except OSError as e:
        raise Refused(f"{out} cannot be written: {e.strerror}") from None
    finally:
        with suppress(OSError):
            partial.unlink(missing_ok=True)


def _still_to_do(source: bytes) -> str:
    count = len(re.findall(rb"^[ \t]*raise NotImplementedError\(", source, re.MULTILINE))
    return f"   still to do in {counted(count, 'place')}" if count else ""
