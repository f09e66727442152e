"""The result as JSON, schema 1: the records of grader/results.py, field by field, with two spaces of indentation."""

import msgspec

from grader.results import SubmissionResult


def render(result: SubmissionResult) -> str:
    """The result as JSON text. The same submission, suite and seed give the same text but for `seconds`."""
    return msgspec.json.format(msgspec.json.encode(result), indent=2).decode() + "\n"


def parse(text: str | bytes) -> SubmissionResult:
    """The result that `render` wrote.

    Raises:
        msgspec.ValidationError: It is something else; the text says what was expected where.
    """
    return msgspec.json.decode(text, type=SubmissionResult)
