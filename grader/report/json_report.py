"""The result as JSON, schema 2: the records of grader/results/result_records.py, field by field."""

import re
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from grader.base import files
from grader.base.errors import UsageError
from grader.report.report_contents import Reported
from grader.results.result_records import SCHEMA, SubmissionResult
from kit.safe_text import one_line, printable

# The most characters of a text in a file that is read; the grader writes fewer.
MAX_TEXT = 20_000
SEVERAL_LINES = ("hint",)  # may contain line ends
Decoded = TypeVar("Decoded")
ESCAPED = re.compile(r'\\[^"\\/]')  # a character that JSON has as an escape


def render(reported: Reported) -> str:
    """The result as JSON text, with what people wrote as `notes`, which `parse` leaves out."""
    tree = msgspec.to_builtins(reported.result)
    if reported.notes:
        tree["notes"] = [{"problem": note.problem, "text": note.text} for note in reported.notes]
    return msgspec.json.format(msgspec.json.encode(tree), indent=2).decode() + "\n"


def parse(text: str | bytes) -> SubmissionResult:
    """Parse the text that `render` wrote, and make its texts safe to print.

    The file that it is from may have been edited. Nearly always a look at the whole text shows that
    there is nothing to make safe, which takes a twentieth of the time.

    Raises:
        msgspec.ValidationError: The text is invalid; the error says what was expected, and where.
    """
    return decoded(text, SubmissionResult)


def decoded(text: str | bytes, kind: type[Decoded]) -> Decoded:
    """Parse JSON that may have been edited, and make its texts safe to print; see `parse`."""
    whole = text if isinstance(text, str) else text.decode()
    if ESCAPED.search(whole) or not whole.replace("\n", "").isprintable():
        return msgspec.convert(_safe(msgspec.json.decode(whole)), kind)
    return msgspec.json.decode(whole, type=kind)


MOST_BYTES = 32 * 2**20
WANTED = "what `grader grade --json` wrote"


def read(path: Path) -> SubmissionResult:
    """Read a result from an untrusted file, with texts safe to print; or a UsageError."""
    try:
        tree = _safe(msgspec.json.decode(files.read(path, most=MOST_BYTES)))
    except (ValueError, RecursionError):
        raise UsageError(f"{path} is not JSON: expected {WANTED}") from None
    if (
        not isinstance(tree, dict)
        or not isinstance(tree.get("schema"), int)
        or "problems" not in tree
    ):
        raise UsageError(f"{path} is not a result of the grader: expected {WANTED}")
    if tree["schema"] != SCHEMA:
        raise UsageError(
            f"{path}: expected a result of schema {SCHEMA}, found schema {tree['schema']}: "
            "grade the submission again with this grader"
        )
    try:
        return msgspec.convert(tree, SubmissionResult)
    except msgspec.ValidationError as e:
        raise UsageError(
            f"{path} is not a result of the grader: {printable(str(e), 300)}"
        ) from None


def _safe(value: Any, *, lines: bool = False) -> Any:
    """A JSON value with every text in it made printable, in several lines only with `lines`."""
    if isinstance(value, str):
        return printable(value, MAX_TEXT) if lines else one_line(value, MAX_TEXT)
    if isinstance(value, list):
        return [_safe(item) for item in value]
    if isinstance(value, dict):
        return {_safe(key): _safe(item, lines=key in SEVERAL_LINES) for key, item in value.items()}
    return value
