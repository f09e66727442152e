"""The result as a short plain text, for a comment in a learning management system.

Such a system shows a comment as text, or as HTML. So no text contains < or >, and a
zero-width space keeps an address in a student's text from becoming a link in a teacher's comment.
"""

from grader.report.lost_points import Reason
from grader.report.report_contents import Reported
from grader.report.shared_wording import clean, in_points, number, unlinked

LIMIT = 6_000  # characters
MAX_REASONS = 12
MAX_PROBLEMS = 60
BRACKETS = str.maketrans("<>", "‹›")


def render(reported: Reported) -> str:
    """The points, what people wrote, the points of each problem, and the costliest mistakes."""
    lines = summary(reported)
    lines += [
        f"{clean(p.id, 100)}: {number(p.score)} of {number(p.max_score)}"
        for p in reported.result.problems[:MAX_PROBLEMS]
    ]
    lines += [_reason(reason) for reason in reported.reasons[:MAX_REASONS]]
    return safe(lines)


def summary(reported: Reported) -> list[str]:
    """The points, and what people should know about them."""
    return [reported.headline, *reported.remarks, *(note.text for note in reported.notes)]


def safe(lines: list[str]) -> str:
    """Lines as one text that no web page takes for markup; it is cut to `LIMIT` characters."""
    text = "\n".join(unlinked(clean(line)).translate(BRACKETS) for line in lines)
    return text if len(text) <= LIMIT else text[:LIMIT] + "…"


def _reason(reason: Reason) -> str:
    first = reason.first
    cost = "our fault" if reason.is_ours else f"{in_points(reason.points)} lost"
    parts = [reason.head, f"looks like: {first.mistake}" if first.mistake else ""]
    parts += [f"hint: {first.hint}" if first.hint else ""]
    return clean(f"- {'; '.join(filter(None, parts))} ({cost})")
