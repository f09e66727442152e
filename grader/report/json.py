"""The result as JSON, schema 1: the records of grader/results.py, field by field, with two spaces of indentation."""

from pathlib import Path
from typing import Any

import msgspec

from grader.errors import UsageError
from grader.results import SCHEMA, SubmissionResult
from grader.text import printable

MAX_TEXT = 20_000  # characters of one text in a file that is read: more than the grader writes
SEVERAL_LINES = ("message", "hint")  # the texts that may have them


def render(result: SubmissionResult) -> str:
    """The result as JSON text. The same submission, suite and seed give the same text but for `seconds`."""
    return msgspec.json.format(msgspec.json.encode(result), indent=2).decode() + "\n"


def parse(text: str | bytes) -> SubmissionResult:
    """The result that `render` wrote.

    Raises:
        msgspec.ValidationError: It is something else; the text says what was expected where.
    """
    return msgspec.json.decode(text, type=SubmissionResult)


def read(path: Path) -> SubmissionResult:
    """The result in a file, whoever wrote it: its texts are safe to print.

    Raises:
        UsageError: There is none, or none that this grader can go on with.
    """
    try:
        tree = _safe(msgspec.json.decode(path.read_bytes()))
    except OSError as e:
        raise UsageError(f"{path} cannot be read: {e.strerror}") from None
    except (ValueError, RecursionError):
        raise UsageError(f"{path} is not JSON") from None
    if not isinstance(tree, dict) or not isinstance(tree.get("schema"), int) or "problems" not in tree:
        raise UsageError(f"{path} is not a result of the grader")
    if tree["schema"] != SCHEMA:
        raise UsageError(f"{path} is a result of schema {tree['schema']}, and this grader reads schema {SCHEMA}")
    if "pending" not in tree:
        raise UsageError(f"{path} was written by an older grader, which knew no device of a test: grade again")
    try:
        return msgspec.convert(tree, SubmissionResult)
    except msgspec.ValidationError as e:
        raise UsageError(f"{path} is not a result of the grader: {printable(str(e), 300)}") from None


def _safe(value: Any, *, lines: bool = False) -> Any:
    """A value of JSON with every text in it made printable; line ends stay where there may be several lines."""
    if isinstance(value, str):
        text = printable(value, MAX_TEXT)
        return text if lines else text.replace("\n", "\\n")
    if isinstance(value, list):
        return [_safe(item) for item in value]
    if isinstance(value, dict):
        return {_safe(key): _safe(item, lines=key in SEVERAL_LINES) for key, item in value.items()}
    return value
