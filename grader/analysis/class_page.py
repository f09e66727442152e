"""The web page of a class: answers to a teacher's questions after a deadline, with the students."""

import json
import math
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from markupsafe import Markup

from grader.analysis import item_analysis
from grader.analysis.class_statistics import Member, Spread, Survey
from grader.analysis.item_analysis import FEWEST_OF_EACH
from grader.classroom.class_records import State
from grader.report import html_pages
from grader.report.shared_wording import clean, number

TEMPLATES = Path(__file__).parent / "templates"
BARS = 20  # of the distribution of points, at most
# The states that a person has to act on, the most urgent first.
TROUBLE = (State.GRADER_ERROR, State.REFUSED, State.NOT_GRADED)


def render(
    survey: Survey, *, title: str, at: datetime | None = None, with_names: bool = True
) -> str:
    """The page, which is one file."""
    states = [m.standing.state for m in survey.members]
    bars, by_time = _bars(survey), _by_time(survey)
    return html_pages.render(
        "class.html",
        title=f"{clean(title, 100)}: the class",
        folder=TEMPLATES,
        styles=[(TEMPLATES / "class.css").read_text(encoding="utf-8")],
        scripts=[(TEMPLATES / "class_tables.js").read_text(encoding="utf-8")],
        heading=clean(title, 100),
        made=(at or datetime.now(UTC)).strftime("%Y-%m-%d %H:%M UTC"),
        with_names=with_names,
        survey=survey,
        spread=Spread.of(survey.points),
        bars=bars,
        by_time=by_time,
        advances=[at for at, topic in enumerate(survey.problems) if topic.advance],
        states=[(state.words, states.count(state)) for state in State if state in states],
        late=sum(m.standing.days_late > 0 for m in survey.members),
        cases=_cases(survey, with_names),
        reteach=sorted(
            (at for at, topic in enumerate(survey.problems) if topic.share is not None),
            key=lambda at: survey.problems[at].share or 0.0,
        ),
        commonest={one.problem: n for n, one in reversed(list(enumerate(survey.mistakes)))},
        fewest_of_each=FEWEST_OF_EACH,
        sections=[clean(m.standing.student.section, 50) for m in survey.members],
        number=number,
        per_cent=_per_cent,
        decimals=lambda x: "–" if x is None else f"{x:.2f}".replace("-", "−"),
        data=_data(survey, bars, by_time),
    )


def _cases(survey: Survey, with_names: bool) -> list[dict[str, object]]:
    """The students who need attention: grader faults first, then unreadable and unfinished work."""
    found: list[dict[str, object]] = []

    def add(number: int, what: str, why: str, look: str) -> None:
        name = survey.members[number].name
        found.append({"number": number, "name": name, "what": what, "why": why, "look": look})

    for state in TROUBLE:
        for n, m in enumerate(survey.members):
            if m.standing.state is state:
                look = "ours" if state is State.GRADER_ERROR else "warn"
                why = clean(m.standing.why, 200) if with_names else ""
                add(n, state.words, why, look)
    for n, m in enumerate(survey.members):
        if m.ended:
            why = ", ".join(f"{problem}: {status.value}" for problem, status in m.ended.items())
            add(n, "did not finish", clean(why, 200), "bad")
    for n, m in enumerate(survey.members):
        if with_names and m.standing.state is State.GRADED and m.standing.why:
            add(n, "to check", clean(m.standing.why, 200), "warn")
    return found


@dataclass
class Bar:
    """Some students: those whose points lie between two whole numbers."""

    words: str
    students: list[int] = field(default_factory=list)  # their numbers
    late: int = 0  # how many of them are late


def _bars(survey: Survey) -> list[Bar]:
    """The distribution of points in bars of one width."""
    most = max(1, math.ceil(survey.max_score))
    width = math.ceil(most / BARS)
    bars = [Bar(f"{low} to {min(low + width, most)} points") for low in range(0, most, width)]
    for n, member in enumerate(survey.members):
        if (points := member.standing.points) is not None:
            bar = bars[min(len(bars) - 1, max(0, int(points // width)))]
            bar.students.append(n)
            bar.late += member.standing.days_late > 0
    return bars


# Hours before the deadline at which students hand in: the least of each row, and its words.
TIMES = [(72.0, "3 days before the deadline, or earlier"), (24.0, "1 to 3 days before"),
         (6.0, "6 to 24 hours before"), (0.0, "in the last 6 hours")]  # fmt: skip


def _by_time(survey: Survey) -> list[tuple[Bar, Spread]]:
    """Who handed in at about the same time, and their scores before the late penalty."""
    rows = [*TIMES, (-math.inf, "late")]
    bars = {words: Bar(words) for _, words in rows}
    for n, member in enumerate(survey.members):
        hours = member.hours_before
        if hours is not None and member.standing.score is not None:
            bars[next(words for least, words in rows if hours >= least)].students.append(n)
    scores = [
        [survey.members[n].standing.score or 0.0 for n in bar.students] for bar in bars.values()
    ]
    spreads = zip(bars.values(), map(Spread.of, scores), strict=True)
    return [(bar, spread) for bar, spread in spreads if spread]


def _per_cent(share: float | None) -> str:
    if share is None:
        return "–"
    text = f"{100 * share:.0f} %"
    return "> 99 %" if text == "100 %" and share < 1 - 1e-9 else text


def _data(survey: Survey, bars: list[Bar], by_time: list[tuple[Bar, Spread]]) -> Markup:
    """The data for the filters, as JSON that is safe inside a script element."""
    found = {
        "bars": [_students(bar.words, bar.students) for bar in bars],
        "times": [_students(bar.words, bar.students) for bar, _ in by_time],
        "problems": [topic.id for topic in survey.problems],
        "sections": [group.name for group in survey.groups],
        "members": [_member(survey, member) for member in survey.members],
        "mistakes": [
            _students(f"{survey.problems[one.problem].id}: {one.text}", one.students)
            for one in survey.mistakes
        ],
        "tests": [test.id for test in survey.tests],
    }
    text = json.dumps(found, separators=(",", ":"))
    return Markup(text.replace("<", "\\u003c"))


def _students(name: str, numbers: list[int]) -> dict[str, object]:
    return {"name": name, "students": numbers}


def _member(survey: Survey, member: Member) -> dict[str, object]:
    standing = member.standing
    problems = [topic.id for topic in survey.problems]
    names = [group.name for group in survey.groups]
    return {
        "name": member.name,
        "section": names.index(clean(standing.student.section, 50)),
        "state": standing.state.words,
        "late": standing.days_late,
        "begun": [share is not None for share in member.shares],
        "failed": member.failed,
        "stalls": [
            at for at, one in enumerate(problems) if item_analysis.is_stalled(one, member.tries)
        ],
    }
