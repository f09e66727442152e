"""The web page of a class: answers to a teacher's questions after a deadline, with the students."""

import json
from datetime import UTC, datetime
from pathlib import Path

from markupsafe import Markup

from grader.analysis import item_analysis
from grader.analysis.class_statistics import Member, Spread, Survey
from grader.analysis.item_analysis import FEWEST_OF_EACH
from grader.classroom.class_records import State
from grader.report import html_pages
from grader.report.shared_wording import clean, number

HERE = Path(__file__).parent
TEMPLATES = HERE / "templates"
SCRIPTS = ("vendor/d3.min.js", "vendor/plot.umd.min.js", "templates/class_charts.js")
TOP = 15  # mistakes that are shown at first
SHOWN_TESTS = 12  # tests that are shown at first
# The states that a person has to act on, the most urgent first.
TROUBLE = (State.GRADER_ERROR, State.REFUSED, State.NOT_GRADED)


def render(
    survey: Survey, *, title: str, at: datetime | None = None, with_names: bool = True
) -> str:
    """The page, which is one file."""
    states = [m.standing.state for m in survey.members]
    return html_pages.render(
        "class.html",
        title=f"{clean(title, 100)}: the class",
        folder=TEMPLATES,
        styles=[(TEMPLATES / "class.css").read_text(encoding="utf-8")],
        scripts=[(HERE / name).read_text(encoding="utf-8") for name in SCRIPTS],
        loose_style=True,  # Observable Plot puts a style element into each plot
        heading=clean(title, 100),
        made=(at or datetime.now(UTC)).strftime("%Y-%m-%d %H:%M UTC"),
        with_names=with_names,
        survey=survey,
        spread=Spread.of(survey.points),
        by_time=_by_time(survey),
        advances=[at for at, topic in enumerate(survey.problems) if topic.advance],
        states=[(state.words, states.count(state)) for state in State if state in states],
        late=sum(m.standing.days_late > 0 for m in survey.members),
        cases=_cases(survey, with_names),
        reteach=sorted(
            (at for at, topic in enumerate(survey.problems) if topic.share is not None),
            key=lambda at: survey.problems[at].share or 0.0,
        ),
        commonest={one.problem: n for n, one in reversed(list(enumerate(survey.mistakes)))},
        top=TOP,
        shown_tests=SHOWN_TESTS,
        fewest_of_each=FEWEST_OF_EACH,
        sections=[clean(m.standing.student.section, 50) for m in survey.members],
        number=number,
        per_cent=_per_cent,
        decimals=lambda x: "–" if x is None else f"{x:.2f}".replace("-", "−"),
        data=_data(survey, with_names),
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


# Hours before the deadline at which students hand in: the least of each row, and its words.
TIMES = [(72.0, "3 days before the deadline, or earlier"), (24.0, "1 to 3 days before"),
         (6.0, "6 to 24 hours before"), (0.0, "in the last 6 hours")]  # fmt: skip


def _by_time(survey: Survey) -> list[tuple[str, Spread]]:
    """The scores, before the late penalty, of those who handed in at about the same time."""
    found: dict[str, list[float]] = {words: [] for words in (*dict(TIMES).values(), "late")}
    for member in survey.members:
        hours, score = member.hours_before, member.standing.score
        if hours is not None and score is not None:
            found[next((words for least, words in TIMES if hours >= least), "late")].append(score)
    return [(words, spread) for words, scores in found.items() if (spread := Spread.of(scores))]


def _per_cent(share: float | None) -> str:
    if share is None:
        return "–"
    text = f"{100 * share:.0f} %"
    return "> 99 %" if text == "100 %" and share < 1 - 1e-9 else text


def _data(survey: Survey, with_names: bool) -> Markup:
    """The data for the plots and filters, as JSON that is safe inside a script element."""
    found = {
        "max": survey.max_score,
        "problems": [topic.id for topic in survey.problems],
        "sections": [group.name for group in survey.groups],
        "members": [_member(survey, member, with_names) for member in survey.members],
        "mistakes": [
            {"name": f"{survey.problems[one.problem].id}: {one.text}", "students": one.students}
            for one in survey.mistakes
        ],
        "tests": [test.id for test in survey.tests],
    }
    text = json.dumps(found, separators=(",", ":"))
    return Markup(text.replace("<", "\\u003c"))


def _member(survey: Survey, member: Member, with_names: bool) -> dict[str, object]:
    """A student's data; the exact time is left out where it would tell who somebody is."""
    standing, hours = member.standing, member.hours_before
    problems = [topic.id for topic in survey.problems]
    names = [group.name for group in survey.groups]
    return {
        "name": member.name,
        "section": names.index(clean(standing.student.section, 50)),
        "state": standing.state.words,
        "points": standing.points,
        "late": standing.days_late,
        "begun": [share is not None for share in member.shares],
        "failed": member.failed,
        "score": standing.score,
        "hours": round(hours, 2) if hours is not None and with_names else None,
        "tries": item_analysis.in_words(member.tries, problems),
        "stalls": [
            at for at, one in enumerate(problems) if item_analysis.is_stalled(one, member.tries)
        ],
    }
