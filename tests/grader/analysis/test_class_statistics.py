"""The counts of a class agree with counts that were worked out by hand."""

import json
import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import msgspec
import pytest

from grader.analysis import class_page, open_task
from grader.analysis.class_statistics import Spread, survey
from grader.analysis.class_terminal import mistakes
from grader.base.errors import Status
from grader.course import courses
from grader.results.result_records import Fact
from tests.grader.analysis.sample_gradebooks import class_of, failed, passed, skipped

LINEAR, ADAMW = (courses.load().problem(name).points for name in ("linear", "adamw"))
EPS = "Epsilon stands inside the square root."


def work(linear, adamw):
    return {"linear": linear, "adamw": adamw}


FULL = work([passed("a"), passed("b")], [passed("c"), passed("d")])
SECTION_A, SECTION_B = {"section": "A", "name": "Ada"}, {"section": "B"}


@pytest.fixture
def students():
    """Six students, one of whom handed in nothing."""
    return {
        "s1": (SECTION_A, FULL),
        "s2": (SECTION_A, work([passed("a"), failed("b")], [failed("c", EPS), failed("d", EPS)])),
        "s3": (SECTION_A, None),
        "s4": (SECTION_B, work([skipped("a"), skipped("b")], [failed("c", EPS), passed("d")])),
        "s5": (SECTION_B, work([failed("a", status=Status.CRASHED, what="ended"), passed("b")],
                               [skipped("c"), skipped("d")])),
        "s6": (SECTION_B, FULL),
    }  # fmt: skip


@pytest.fixture
def found(students, tmp_path):
    with class_of(tmp_path / "class.sqlite", students) as whole:
        yield survey(whole)


def test_problems_are_counted_over_those_who_began_them(found):
    """A stub does not count as zero: it does not show how hard the problem is."""
    linear, adamw = found.problems
    assert ("linear", "7.1", 4, 2) == (linear.id, linear.section, linear.begun, linear.full)
    assert linear.share == pytest.approx((1 + 0.5 + 0.5 + 1) / 4)
    assert (4, 2) == (adamw.begun, adamw.full)
    assert adamw.share == pytest.approx((1 + 0 + 0.5 + 1) / 4)


def test_mistakes_are_counted_by_students_not_by_tests(found):
    """The mistake of most students comes first, and each mistake has its cost in points."""
    first = found.mistakes[0]
    assert (EPS, True, [1, 3]) == (first.text, first.is_known, first.students)
    assert first.points == pytest.approx(ADAMW * 1.5)
    others = {(one.text, tuple(one.students)) for one in found.mistakes[1:]}
    assert {("f: wrong values", (1,)), ("f: ended", (4,))} == others


def test_failures_are_alike_if_all_answers_are_equal(tmp_path):
    """The place in a student's code does not matter; one other value does."""

    def wrong(value, line):
        facts = [Fact("got", value), Fact("at", f"assignment/linear.py:{line}")]
        return msgspec.structs.replace(failed("a"), facts=facts)

    each = {"s1": wrong("1.0", 5), "s2": wrong("1.0", 77), "s3": wrong("2.0", 5)}
    rest = [passed("c"), passed("d")]
    students = {name: ({}, work([one, failed("b")], rest)) for name, one in each.items()}
    with class_of(tmp_path / "class.sqlite", students) as whole:
        found = survey(whole)
    assert [(2, [0, 1]), (2, [2])] == [(one.tests, one.students) for one in found.mistakes]
    assert found.mistakes[0].points == pytest.approx(2 * LINEAR)


def test_points_have_quartiles():
    """They are those of the values themselves, and one value has them too."""
    one = Spread.of([1.0, 2.0, 3.0, 4.0, 10.0])
    assert (one.count, one.mean, one.lower, one.median, one.upper) == (5, 4.0, 2.0, 3.0, 4.0)
    assert one.deviation == pytest.approx(10**0.5)
    assert Spread.of([7.0]) == Spread(1, 7.0, 7.0, 7.0, 7.0, 0.0)
    assert Spread.of([]) is None


def test_tests_are_counted_over_those_who_attempted_them(found):
    """A test has the same number in every list."""
    by_name = {item.id: item for item in found.tests}
    assert (4, 0.75) == (by_name["test_a"].tried, by_name["test_a"].difficulty)
    assert (4, 0.5) == (by_name["test_c"].tried, by_name["test_c"].difficulty)
    names = [[found.tests[n].id for n in member.failed] for member in found.members]
    assert [[], ["test_b", "test_c", "test_d"], [], ["test_c"], ["test_a"], []] == names


def test_sections_stand_side_by_side(found):
    """A section's mean is taken over the students who have points."""
    a, b = found.groups
    assert ("A", 3, 1) == (a.name, a.members, a.missing)
    assert a.spread.mean == pytest.approx((LINEAR + ADAMW + LINEAR / 2) / 2)
    assert ("B", 3, 0) == (b.name, b.members, b.missing)
    assert b.shares[0] == pytest.approx(0.75)


def test_a_fault_of_the_grader_counts_for_nobody(students, tmp_path):
    """A grader fault counts neither as a failure nor as a grade."""
    error = failed("a", status=Status.GRADER_ERROR, about="test_a", what="ZeroDivisionError")
    students["s7"] = ({}, work([error, passed("b")], [passed("c"), passed("d")]))
    with class_of(tmp_path / "other.sqlite", students) as whole:
        found = survey(whole)
    assert 4 == next(item.tried for item in found.tests if item.id == "test_a")
    assert not any("ZeroDivision" in one.text for one in found.mistakes)


def test_without_names_nobody_can_be_recognised(students, tmp_path):
    with class_of(tmp_path / "class.sqlite", students) as whole:
        orders = {
            tuple(len(m.failed) for m in survey(whole, names=False).members) for _ in range(40)
        }
        found = survey(whole, names=False)
    assert len(orders) > 1
    assert {f"student {n}" for n in range(1, 7)} == {m.name for m in found.members}
    assert [EPS] == [one.text for one in found.mistakes]


def test_scores_are_shown_by_the_time_of_handing_in(found):
    """In rows, whose exact times tell nobody who somebody is, and in bars of a few points."""
    hours = {80: "3 days before the deadline, or earlier", 0: "in the last 6 hours", -1: "late"}
    due, one = datetime(2026, 10, 5, tzinfo=UTC), found.members[0]
    times = [due - timedelta(hours=before) for before in (*hours, 80)]
    members = []
    for at in times:
        known = {"deadline": due, "submitted_at": at, "days_late": int(at > due)}
        members.append(replace(one, standing=msgspec.structs.replace(one.standing, **known)))
    page = class_page.render(replace(found, members=members), title="t")
    rows = re.findall(r'row">(.*)</th><td class="number"><a href="#time-\d">(\d)</a>', page)
    assert rows == list(zip(hours.values(), "211", strict=True))
    assert '"times":[{"name":"3 days before the deadline, or earlier","students":[0,3]}' in page
    full = LINEAR + ADAMW
    assert f'aria-label="4 with {full - 1} to {full} points, 1 late"' in page


def test_the_terminal_says_what_to_talk_about(found):
    text = mistakes(found, top=5)
    assert "5 of 6 students have a grade" in text
    lines = [line.split() for line in text.splitlines()]
    assert ["62", "%", "4", "adamw", "§8.2"] in lines
    assert ["2", f"{ADAMW * 1.5:g}", "adamw", "§8.2", *EPS.split()] in lines
    assert "no test can be judged: fewer than 20 students attempted each" in text


def test_an_empty_class_is_no_error(tmp_path):
    with class_of(tmp_path / "class.sqlite", {"s1": (SECTION_A, None)}) as whole:
        found = survey(whole)
    assert ([], []) == (found.tests, found.mistakes)
    assert "0 of 1 students have a grade" in mistakes(found, top=5)


def pass_or_fail(path, passes, fails):
    right, wrong = ({"linear": [one("a"), one("b")]} for one in (passed, failed))
    works = [right] * passes + [wrong] * fails
    students = {f"s{n:02}": ({}, work) for n, work in enumerate(works)}
    with class_of(path / "class.sqlite", students, problems=("linear",)) as whole:
        return survey(whole)


TOO_FEW = "no test can be judged: fewer than 20 students attempted each"


@pytest.mark.parametrize(
    ("passes", "fails", "found", "verdict"),
    [
        (2, 1, None, TOO_FEW),
        # Who passes one test passes the other: the correlation is 1.
        (6, 6, 1.0, TOO_FEW),
        (10, 10, 1.0, "no test is suspicious"),
    ],
)
def test_a_small_class_says_what_it_cannot_say(tmp_path, passes, fails, found, verdict):
    """A test that nobody can judge is not called good."""
    survey = pass_or_fail(tmp_path, passes, fails)
    for test in survey.tests:
        assert test.discrimination == (found if found is None else pytest.approx(found))
    assert survey.verdict == verdict
    assert verdict in mistakes(survey, top=5)
    page = class_page.render(survey, title="Small")
    assert f"{verdict.capitalize()}.</p>" in page
    assert (f'<p class="good">{verdict.capitalize()}' in page) == (passes + fails >= 20)
    assert "Scores by the time of handing in are unknown" in page
    assert "It is known if at least 5 students pass and 5 fail.</p>" in page


def test_the_tests_that_enough_students_attempted_are_counted(tmp_path):
    students = {
        f"s{n:02}": ({}, {"linear": [passed("a"), skipped("b") if n < 12 else passed("b")]})
        for n in range(24)
    }
    with class_of(tmp_path / "class.sqlite", students, problems=("linear",)) as whole:
        said = survey(whole).verdict
    assert said == (
        "no test is suspicious; only 1 of 2 can be judged, because fewer than 20 students "
        "attempted the others"
    )


def entry(**changed):
    usual = {"name": "a<b>", "loss": 2.0, "steps": 10, "flops": 9, "budget": 10, "text": "t"}
    return json.dumps(usual | {"recipe": {"width": 64, "rate": 0.01}} | changed).encode()


def test_the_entries_of_the_open_task_are_a_table(tmp_path):
    """The lowest loss comes first; what cannot be compared is last, and what is none is nowhere."""
    handed_in = {
        "ada": entry(),
        "ben": entry(loss=1.5),
        "cid": entry(loss=0.1, flops=11),
        "dora": entry(loss=0.2, text="another"),
        "eve": b"[" * 9000,
        "fay": entry(loss=-1),
        "gil": entry(recipe={"width": "0; rm"}),
        "hal": entry(name="x" * (open_task.LONGEST_WORD + 1)),
        "jo": entry() + b" " * open_task.MOST_BYTES,
        "ida": entry(loss=float("nan")),
    }
    sources = {name: {"assignment/race.json": content} for name, content in handed_in.items()}
    students = {name: ({"name": name.title()}, FULL) for name in handed_in}
    with class_of(tmp_path / "class.db", students, sources=sources) as whole:
        named, nameless = survey(whole), survey(whole, names=False)
    assert [(row.student, row.entry.loss, row.remark) for row in named.race] == [
        ("Ben (ben)", 1.5, ""),
        ("Ada (ada)", 2.0, ""),
        ("Cid (cid)", 0.1, "spends more than its budget"),
        ("Dora (dora)", 0.2, "another text or budget"),
    ]
    assert named.race[0].options == "--width 64 --rate 0.01"
    assert {row.student for row in nameless.race} == {""}
    page = class_page.render(named, title="t")
    assert page.count('<th scope="row">a&lt;b&gt;</th>') == 4
    assert "Open task" in page
