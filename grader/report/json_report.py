"""The result as JSON, schema 2: the records of grader/results/records.py, field by field.

The JSON is indented by two spaces. Schema 1, written by graders before 0.6, can be read too. In
schema 1, the `message` of a test was a single text, which only this module splits into parts.
"""

from pathlib import Path
from typing import Any

import msgspec

from grader.base.errors import UsageError
from grader.report.reported import Reported
from grader.results.records import SCHEMA, SubmissionResult
from kit.text import one_line, printable

# The most characters of a text in a file that is read; the grader writes fewer.
MAX_TEXT = 20_000
SEVERAL_LINES = ("message", "hint")  # may contain line ends; "message" exists in schema 1


def render(reported: Reported) -> str:
    """The result as JSON text.

    The same submission, suite and seed give the same text, except for `seconds`.
    """
    return msgspec.json.format(msgspec.json.encode(reported.result), indent=2).decode() + "\n"


def parse(text: str | bytes) -> SubmissionResult:
    """Parse the text that `render` wrote.

    Raises:
        msgspec.ValidationError: The text is invalid; the error says what was expected, and where.
    """
    return msgspec.json.decode(text, type=SubmissionResult)


def read(path: Path) -> SubmissionResult:
    """Read a result from an untrusted file, and make its texts safe to print.

    Raises:
        UsageError: The file cannot be read, or this grader cannot use it.
    """
    try:
        tree = _safe(msgspec.json.decode(path.read_bytes()))
    except OSError as e:
        raise UsageError(f"{path} cannot be read: {e.strerror}") from None
    except (ValueError, RecursionError):
        raise UsageError(f"{path} is not JSON") from None
    if (
        not isinstance(tree, dict)
        or not isinstance(tree.get("schema"), int)
        or "problems" not in tree
    ):
        raise UsageError(f"{path} is not a result of the grader")
    if tree["schema"] not in (1, SCHEMA):
        raise UsageError(
            f"{path} is a result of schema {tree['schema']}, "
            f"and this grader reads schemas 1 and {SCHEMA}"
        )
    if "pending" not in tree:
        raise UsageError(
            f"{path} was written by an older grader, without the tests' devices: grade again"
        )
    try:
        return msgspec.convert(
            _from_schema_1(tree) if tree["schema"] == 1 else tree, SubmissionResult
        )
    except msgspec.ValidationError as e:
        raise UsageError(
            f"{path} is not a result of the grader: {printable(str(e), 300)}"
        ) from None


def _safe(value: Any, *, lines: bool = False) -> Any:
    """A JSON value with every text in it made printable.

    Newlines are kept only with `lines`.
    """
    if isinstance(value, str):
        return printable(value, MAX_TEXT) if lines else one_line(value, MAX_TEXT)
    if isinstance(value, list):
        return [_safe(item) for item in value]
    if isinstance(value, dict):
        return {_safe(key): _safe(item, lines=key in SEVERAL_LINES) for key, item in value.items()}
    return value


def _from_schema_1(tree: dict[str, Any]) -> dict[str, Any]:
    """Convert a result from schema 1 to schema 2.

    Malformed parts are left unchanged, and `msgspec.convert` refuses them.
    """
    problems = tree["problems"] if isinstance(tree["problems"], list) else []
    for problem in problems:
        tests = problem.get("tests") if isinstance(problem, dict) else None
        for test in tests if isinstance(tests, list) else []:
            if isinstance(test, dict) and isinstance(message := test.pop("message", ""), str):
                test.update(_parts(message, str(problem.get("id"))))
    return {**tree, "schema": SCHEMA}


def _parts(message: str, problem: str) -> dict[str, Any]:
    """Split a message of schema 1.

    The message is `problem · function: what`, then one fact per line with a label of 11 characters.
    """
    head, *lines = message.split("\n")
    about, what = "", head.removeprefix(f"{problem}: ")
    if head.startswith(f"{problem} · ") and ": " in head:
        about, what = head.removeprefix(f"{problem} · ").split(": ", 1)
    facts = [{"label": line[2:12].strip(), "text": line[12:].strip()} for line in lines]
    rules = [fact["text"] for fact in facts if fact["label"] == "rule"]
    parts = {
        "about": about,
        "what": what,
        "facts": [fact for fact in facts if fact["label"] != "rule"],
    }
    return parts | ({"rule": rules[0]} if rules else {})
