"""policy.toml, late days and the file of a course's late days."""

from datetime import UTC, datetime, timedelta

import pytest

from grader.base.errors import UsageError
from grader.classroom import spreadsheet_csv
from grader.classroom.class_records import Standing, State, Student
from grader.course import late_policy
from grader.course.late_policy import Policy

DUE = datetime(2026, 10, 2, 12, tzinfo=UTC)
CLASSROOM = "[policy.classroom50]\norganization = 'o'\nclassroom = 'a/b'\nassignment = 'hw'"
LEADERBOARD = "[policy.gradescope]\nleaderboard = true\nresults = 'after_published'"
BERLIN = "[policy]\ntime_zone = 'Europe/Berlin'\n[policy.deadlines]\ndefault = "


def test_a_policy_is_read(tmp_path):
    path = tmp_path / "policy.toml"
    assert late_policy.load(path) == Policy()
    path.write_text(
        "[policy]\ncounts = 'best'\nlate_days = 2\n"
        "[policy.deadlines]\ndefault = 2026-10-02T05:00:00-07:00\n"
    )
    read = late_policy.load(path)
    assert (read.counts, read.late_days, read.deadlines["default"]) == ("best", 2, DUE)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[policy]\nlate = 3", "no key late; did you mean late_days? It can have counts, per_cent"),
        (CLASSROOM, "classroom in [policy.classroom50] is 'a/b'; expected a short name"),
        (LEADERBOARD, "a leaderboard would show points that students do not see yet"),
        ("[policy]\ncaps = 3", "[policy] has no key caps; did you mean cap?"),
        ("[policy]\nlate_days_used = {}", "[policy] has no key late_days_used"),
        ("[policy.gradescope]\ntest = 'hidden'", "[policy.gradescope] has no key test; did you "),
        ("[policy.gradescope]\ntests = 'no'", "tests in [policy.gradescope] is 'no'; expected"),
        ("[policy]\ncap = '5'", "cap in [policy] is '5'; expected a number"),
        ("[policy]\nlate_days = 1.5", "late_days in [policy] is 1.5; expected a whole number"),
        ("[policy]\ntitle = 3", "title in [policy] is 3; expected text in quotes"),
        ("[policy]\ndeadlines = 3", "deadlines in [policy] is 3; expected a table with a time"),
        ("policy = 3", "expected the table [policy], found policy = 3"),
        ("[policy]\ntime_zone = 'Mars'", "time_zone in [policy] is Mars; expected the name of a"),
        ("[policy]\ntime_zone = '../x'", "time_zone in [policy] is ../x; expected the name of a"),
        (BERLIN + "2026-10-25T02:30:00", "occurs twice, because the clocks of Europe/Berlin"),
        (BERLIN + "2026-03-29T02:30:00", "does not exist, because the clocks of Europe/Berlin"),
        ("[policy]\ncounts = 'first'", "counts"),
        ("[policy]\nper_cent_a_day = -1", "per_cent_a_day in [policy] is -1; expected 0 or more"),
        ("[policy]\nper_cent_a_day = nan", "per_cent_a_day in [policy] is nan; expected 0 or more"),
        ("[policy]\ngrace_minutes = inf", "grace_minutes in [policy] is inf; expected 0 or more"),
        ("[policy]\nhandout_url = 'javascript:alert(1)'", "expected an address such as https://"),
        ("[policy]\nhandout_url = 'https://a.b/ x'", "in [policy] is https://a.b/ x; expected"),
        ("[policy]\ncap = 101", "expected 0 or more, and at most 100"),
        ("[policy.deadlines]\nA = 2026-10-02T12:00:00", "A in [policy.deadlines] has no time zone"),
        ("[policy.deadlines]\nA = 'soon'", "A in [policy.deadlines] is 'soon'; expected a"),
        ("[rules]\n", "expected only the table [policy], found [rules]"),
        ("[policy", "is not TOML"),
        (f"[policy]\nlate_days = 0x{'f' * 9000}", "is not TOML: a whole number has more than 64"),
        (f"[policy]\nlate_days = {2**63}", "is not TOML: a whole number has more than 64 bits"),
        (BERLIN + "1999-12-31", "in the year 1999; expected 2000 or later"),
        (f"policy = '{'a' * 200}'", f"expected the table [policy], found policy = '{'a' * 99}…"),
        (BERLIN + "0001-01-01", "in the year 1; expected 2000 or later"),
        (BERLIN.replace("Berlin", "London") + "9999-12-31", "in the year 9999; expected 2000"),
    ],
)
def test_a_wrong_policy_is_named(tmp_path, text, said):
    path = tmp_path / "policy.toml"
    path.write_text(text)
    with pytest.raises(UsageError) as told:
        late_policy.load(path)
    assert said in str(told.value)
    assert str(path) in str(told.value)


def test_a_time_without_a_zone_is_named():
    assert late_policy.when("2026-10-02T05:00:00-07:00", what="--until") == DUE
    for text, said in [
        ("2026-10-02T12:00:00", "has no time zone"),
        ("soon", "expected a time"),
        ("9999-12-31T23:59:59-07:00", "in the year 9999; expected 2000 or later"),
    ]:
        with pytest.raises(UsageError, match=said):
            late_policy.when(text, what="--until")


def test_a_time_that_no_zone_can_have_is_early_or_late():
    """A platform's file may have any; whoever reads folders refuses such times before."""
    rules = late_policy.Policy(time_zone="Asia/Tokyo")
    first, last = datetime.min.replace(tzinfo=UTC), datetime(9999, 12, 31, 23, 59, tzinfo=UTC)
    assert rules.days_begun(last, DUE) > 2_000_000
    assert late_policy.Policy(time_zone="America/Lima").days_begun(first, DUE) == 0


def test_a_deadline_in_a_named_zone(tmp_path):
    """It gets the offset of its day; one with an offset keeps it."""
    path = tmp_path / "policy.toml"
    path.write_text(BERLIN + "2026-10-24T23:59:00\nother = 2026-11-01T23:59:00Z")
    read = late_policy.load(path)
    assert read.deadlines["default"] == datetime(2026, 10, 24, 21, 59, tzinfo=UTC)
    assert read.deadlines["other"] == datetime(2026, 11, 1, 23, 59, tzinfo=UTC)


@pytest.mark.parametrize(
    ("due", "hours", "named", "plain"),
    [
        # The clocks go back on 25 October: that day has 25 hours.
        ("2026-10-24T21:59:00", 24.5, 1, 2),
        ("2026-10-24T21:59:00", 25.0, 1, 2),
        ("2026-10-24T21:59:00", 25.1, 2, 2),
        # They go forward on 29 March: that day has 23 hours.
        ("2026-03-28T22:59:00", 23.0, 1, 1),
        ("2026-03-28T22:59:00", 23.5, 2, 1),
        ("2026-07-01T21:59:00", 24.0, 1, 1),
        ("2026-07-01T21:59:00", 24.1, 2, 2),
        # An hour that the clock shows twice is late nevertheless.
        ("2026-10-25T00:50:00", 0.5, 1, 1),
    ],
)
def test_a_late_day_ends_at_the_deadlines_clock_time(due, hours, named, plain):
    """With a named zone it has 23 or 25 hours when the clocks change, else always 24."""
    deadline = datetime.fromisoformat(due).replace(tzinfo=UTC)
    at = deadline + timedelta(hours=hours)
    assert Policy(time_zone="Europe/Berlin").days_begun(at, deadline) == named
    assert Policy().days_begun(at, deadline) == plain


def test_late_days_are_counted_over_a_course(tmp_path):
    """Days that were used in other assignments are not free any more."""
    bank = tmp_path / "late.csv"
    bank.write_text("student,assignment,days\nada,hw1,2\nada,hw2,1\nbob,hw1,5\n")
    path = tmp_path / "policy.toml"
    path.write_text('[policy]\ntitle = "hw2"\nlate_days = 3\nlate_days_file = "late.csv"\n')
    rules = late_policy.load(path)
    assert [rules.free_days(name) for name in ("ada", "bob", "cyd")] == [1, 0, 3]
    at = DUE + timedelta(days=1.5)
    assert [rules.days_late(at, DUE, name) for name in ("ada", "bob", "cyd")] == [1, 2, 0]
    standings = [
        Standing(student=Student(id=name), state=State.GRADED, max_score=1, free_days=days)
        for name, days in (("cyd", 2), ("ada", 0), ("=cmd", 1))
    ]
    new = spreadsheet_csv.late_days_table(late_policy.late_days_in(bank), "hw2", standings)
    assert new == "student,assignment,days\n'=cmd,hw2,1\nada,hw1,2\nbob,hw1,5\ncyd,hw2,2\n"
    bank.write_text(new)
    assert late_policy.late_days_in(bank)["=cmd", "hw2"] == 1
    assert spreadsheet_csv.late_days_table(late_policy.late_days_in(bank), "hw2", standings) == new
    bank.unlink()
    assert late_policy.load(path).free_days("ada") == 3


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "columns student, assignment, days, found an empty file"),
        ("ada,hw1,2\n", "assignment, days, found ada, hw1, 2"),
        ("student,assignment,days\nada,hw1\n", "late.csv:2: expected a student, an assignment"),
        ("student,assignment,days\n\nada,hw1,-1\n", "late.csv:3: expected a student"),
        ("student,assignment,days\nada,hw1,1\nada,hw1,1\n", ":3: ada has a second row for hw1"),
    ],
)
def test_a_wrong_file_of_late_days_is_named(tmp_path, text, said):
    path = tmp_path / "late.csv"
    path.write_text(text)
    with pytest.raises(UsageError, match=said):
        late_policy.late_days_in(path)
