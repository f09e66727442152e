"""`grader push canvas` against a server that behaves like Canvas' documented API."""

import itertools
import shutil
from datetime import UTC, datetime, timedelta

import pytest

from grader.base.errors import Status, UsageError
from grader.classroom import canvas_api, gradebook
from grader.classroom.canvas_csv import canvas_user
from grader.classroom.class_records import Student
from grader.course.late_policy import Policy
from tests.grader.classroom.fake_canvas import TEACHER, TOKEN, FakeCanvas, Handler, serving
from tests.grader.in_this_process import DUE, hand_in, new_book
from tests.grader.sampling import every

# Students 11 to 15; the points of the even ones are 7, those of the odd ones 0.
USERS = {f"s{number}": number for number in range(11, 16)}
HOSTILE_NAME = "\x1b]0;x\x07 \u202eevil <img src=x> =1+1 ::error::"


@pytest.fixture
def canvas(monkeypatch):
    """A server whose client never really waits."""
    monkeypatch.setenv("CANVAS_TOKEN", TOKEN)
    slept = []
    defaults = canvas_api.CanvasApi.__init__.__kwdefaults__
    monkeypatch.setitem(defaults, "sleep", slept.append)
    with serving(FakeCanvas(USERS.values())) as running:
        running.slept = slept
        yield running


@pytest.fixture(scope="module")
def graded(today, tmp_path_factory):
    path = tmp_path_factory.mktemp("graded") / "class.sqlite"
    with new_book(path, today) as opened:
        for student, number in USERS.items():
            status = Status.FAILED if number % 2 else Status.PASSED
            hand_in(opened, student, f"x = {number}", setup_1=status)
            enrolled = Student(id=student, name=HOSTILE_NAME, columns={"Canvas ID": str(number)})
            opened.students.enrol([enrolled])
    return path


@pytest.fixture
def book(graded, tmp_path):
    """A copy of that gradebook, which a test may change."""
    return shutil.copy(graded, tmp_path / "class.sqlite")


@pytest.fixture
def push(book, canvas, typed):
    return lambda *options: typed("push", "canvas", book, "--assignment", canvas.address, *options)


def test_a_push_is_shown_done_and_not_repeated(push, canvas):
    code, said, _ = push()
    assert code == 0
    assert "PyTorch" in said
    rows = [line.split()[-3:] for line in said.splitlines() if "(s1" in line]
    assert [row[-2:] for row in rows] == [["0", "yes"], ["7", "yes"]] * 2 + [["0", "yes"]]
    assert "5 students differ, 0 do not\nnothing was pushed; --apply pushes this" in said
    assert canvas.writes() == []
    assert "pushed 5 grades and 5 comments" in push("--apply")[1]
    assert canvas.scores() == {11: 0, 12: 7, 13: 0, 14: 7, 15: 0}
    (comment,) = canvas.comments(12)
    assert comment.startswith("7 of 7 points\n")
    first = list(canvas.log)
    code, said, _ = push("--apply")
    nothing = "0 students differ, 5 do not\npushed 0 grades and 0 comments"
    assert (code, nothing in said) == (0, True)
    assert {line.split()[0] for line in canvas.log[len(first) :]} == {"GET"}
    assert canvas.comment_counts() == [1] * 5
    assert len(canvas.writes()) == 5


def test_only_what_changed_is_sent(push, canvas, book):
    """New points come with a new comment; a student's own copy of a mark does not count as ours."""
    push("--apply")
    with gradebook.writing(book) as opened:
        opened.decisions.override("s11", 3, reason="oral exam")
        opened.feedback.comment("s12", "Well done.", name="")
    rows = [line.split()[-3:] for line in push()[1].splitlines() if "(s1" in line]
    assert rows == [["0", "3", "yes"], ["7", "7", "yes"]]
    push("--apply")
    assert canvas.scores()[11] == 3
    assert "oral exam" in canvas.comments(11)[1]
    assert "Comment: Well done." in canvas.comments(12)[1]
    with gradebook.writing(book) as opened, opened._database as db:
        db.execute("DELETE FROM push")
    of_12 = canvas.submissions[12]["submission_comments"]
    of_12[1]["author_id"] = 12
    assert push("--apply")[1].endswith("pushed 0 grades and 1 comment\n")
    assert [one["author_id"] for one in of_12] == [TEACHER, 12, TEACHER]


@pytest.mark.parametrize("fault", ["lost", "cut", 500])
def test_a_read_that_fails_is_repeated(push, canvas, fault):
    canvas.faults.extend([("GET /api/v1/courses/1/assignments/2/submissions", fault)] * 2)
    assert push("--apply")[0] == 0
    assert not canvas.faults
    assert canvas.scores()[12] == 7
    assert len(canvas.writes()) == 5


@pytest.mark.parametrize(
    ("fault", "runs"),
    every(4, itertools.product(["lost", "cut", 500], ["at once", "never", "later"])),
)
def test_a_push_that_was_cut_off_never_comments_twice(push, canvas, fault, runs, monkeypatch):
    """Canvas has the requests, or not, or carries them out after the command has ended."""
    canvas.faults.extend([("PUT", fault)] * 5)
    canvas.carries_out = runs == "at once"
    code = push("--apply")[0]
    if runs == "at once":
        assert (code, len(canvas.writes()), canvas.scores()[12]) == (0, 5, 7)
    else:
        assert (code, canvas.comment_counts()) == (3, [0] * 5)
    if runs == "never":
        canvas.waiting.clear()
    canvas.carries_out = True
    canvas.give_later()
    for minutes, code in ((14, 3 if runs == "never" else 0), (16, 0)):
        later = datetime.now(UTC) + timedelta(minutes=minutes)
        monkeypatch.setattr("grader.commands.removable.push_command.now", lambda at=later: at)
        assert (push("--apply")[0], canvas.scores()[12]) == (code, 7)
    assert canvas.comment_counts() == [1] * 5


def test_a_push_that_canvas_stopped_need_not_wait(push, canvas):
    """Nothing of it is on its way, so its comment is sent at once."""
    canvas.faults.append(("PUT", 401))
    canvas.carries_out = False
    assert push("--apply")[0] == 2
    canvas.waiting.clear()
    canvas.carries_out = True
    assert push("--apply")[1].endswith("pushed 5 grades and 5 comments\n")


def test_the_points_of_a_lost_request_are_sent_again_without_its_comment(push, canvas):
    canvas.faults.append(("PUT", "lost"))
    real, calls = canvas.give_later, itertools.count()
    canvas.give_later = lambda: real() if next(calls) else canvas.waiting.clear()
    assert push("--apply")[0] == 3
    assert canvas.scores() == {11: 0, 12: 7, 13: 0, 14: 7, 15: 0}
    assert canvas.comment_counts() == [0, 1, 1, 1, 1]


def test_a_command_that_was_interrupted_goes_on(push, canvas, monkeypatch):
    real = canvas_api.CanvasApi.give
    with monkeypatch.context() as patch:
        patch.setattr(
            canvas_api.CanvasApi, "give", lambda *given: real(*given) or 1 / 0
        )  # stands for a signal
        assert "ZeroDivisionError" in push("--apply")[2]
    assert push("--apply")[1].endswith("pushed 4 grades and 4 comments\n")
    assert canvas.comment_counts() == [1] * 5


@pytest.mark.parametrize("status", [422, 500])
def test_one_student_whom_canvas_refuses_stops_no_other(push, canvas, status):
    canvas.poison = {12: status}
    code, said, _ = push("--apply")
    assert code == 3
    assert "pushed 4 grades and 4 comments" in said
    assert canvas.scores() == {11: 0, 12: None, 13: 0, 14: 7, 15: 0}
    assert canvas.comment_counts() == [1, 0, 1, 1, 1]


def test_requests_that_are_too_many_are_repeated_after_a_wait(push, canvas):
    """Also those that would not be repeated otherwise: Canvas has not carried them out."""
    canvas.faults.extend([("PUT", "throttle"), ("PUT", 429)])
    assert push("--apply")[0] == 0
    assert [line.split()[-1] for line in canvas.writes()] == ["throttle", "429", *["200"] * 5]
    assert (canvas.comment_counts(), canvas.slept) == ([1] * 5, [1.0, 2.0])


def test_canvas_that_never_answers_is_one_sentence(push, canvas):
    canvas.faults.extend([("courses/1", 503)] * 50)
    code, said, last = push()
    assert (code, said) == (3, "")
    assert last.endswith(f"{canvas.url} did not answer 7 times: it answered 503")


def test_who_has_no_number_in_canvas_is_listed_and_not_guessed(push, canvas, book, typed):
    """Neither are two students with one number, nor one whom Canvas does not have."""
    others = [
        Student(id="11", name="A number that is no Canvas id"),
        Student(id="s12", columns={"canvas_id": "13"}),
        Student(id="s15", columns={"canvas_id": "99"}),
    ]
    with gradebook.writing(book) as opened:
        opened.students.enrol(others)
        hand_in(opened, "11", "x = 1", setup_1=Status.PASSED)
        opened.students.enrol([Student(id="s11", columns={"seat": "14"})])
    assert "1 student differs, 0 do not" in push("--apply")[1]
    assert canvas.scores() == {11: None, 12: None, 13: None, 14: 7, 15: None}
    assert "2 students are left alone, because the roster has no Canvas id of them" in typed.err
    assert "the roster gives their Canvas id to several students: s12, " in typed.err
    assert "Canvas has no such student in this assignment: s15" in typed.err


def test_grades_that_people_set_in_canvas_stay(push, canvas, book, typed):
    canvas.submissions[11]["excused"] = True
    canvas.submissions[13] |= {"score": 4.0, "entered_score": 4.0}
    with gradebook.writing(book) as opened, opened._database as db:
        db.execute("DELETE FROM attempt WHERE student = 's13'")
    push("--apply")
    assert "Canvas excuses them" in typed.err
    assert "they have a grade in Canvas and none here (missing)" in typed.err
    canvas.submissions[12] |= {"score": 6.5, "entered_score": 6.5}
    assert "0 students differ" in push("--apply")[1]
    assert "their points were changed in Canvas after our push" in typed.err
    assert canvas.submissions[11]["excused"] is True
    assert canvas.scores() == {11: None, 12: 6.5, 13: 4, 14: 7, 15: 0}
    push("--apply", "--overwrite")
    assert canvas.scores()[12] == 7


def test_canvas_late_policy_takes_points_twice_only_if_a_person_says_so(push, canvas, book, typed):
    """Our points contain our own penalty already."""
    with gradebook.writing(book) as opened:
        opened.remember(Policy(per_cent_a_day=10, deadlines={"default": DUE - timedelta(hours=1)}))
    canvas.deducts = True
    canvas.submissions[12]["late"] = canvas.submissions[14]["late"] = True
    assert "3 students differ" in push("--apply")[1]
    assert "they are late and Canvas' late policy takes points, too" in typed.err
    assert canvas.scores() == {11: 0, 12: None, 13: 0, 14: None, 15: 0}
    assert "6.3, not late" in push("--late", "ours")[1]
    canvas.submissions[14]["late"] = False
    push("--apply", "--late", "ours")
    assert canvas.scores()[12] == pytest.approx(6.3)
    canvas.submissions[14]["late"] = True
    assert "0 students differ" in push("--late", "both")[1]
    with gradebook.writing(book) as opened:
        opened.remember(Policy())  # Canvas' penalty is the only one
    push("--apply")
    assert canvas.submissions[14] | {"score": 5.0} == canvas.submissions[14]
    assert "0 students differ" in push()[1]


def test_the_policy_can_name_the_assignment(push, canvas, book, typed, tmp_path):
    """But whoever made the gradebook does not choose where the token goes."""
    policy = tmp_path / "policy.toml"
    policy.write_text(f'[policy]\ncanvas_url = "{canvas.address}"\ncanvas_id = 2\n')
    with gradebook.writing(book) as opened:
        opened.remember(Policy(more={"canvas_url": canvas.address, "canvas_id": 2}))
    code, _, said = typed("push", "canvas", book)
    assert (2, []) == (code, canvas.log)
    assert f"the gradebook names the assignment {canvas.address}: to send your token" in said
    assert "5 students differ" in push()[1]
    assert "5 students differ" in typed("push", "canvas", book, "--policy", policy)[1]
    with gradebook.writing(book) as opened:
        opened.remember(Policy(more={"canvas_id": 3}))
    assert "is not the assignment 3 that the policy's canvas_id names" in push()[2]


def test_a_comment_can_be_a_link_or_left_out(push, canvas, book):
    push("--apply", "--no-comments")
    assert canvas.comment_counts() == [0] * 5
    push("--apply", "--link", "https://course.example/reports/")
    text, mark = canvas.comments(12)[0].rsplit("\n", 1)
    assert text == "7 of 7 points\nReport: https://course.example/reports/s12.html"
    assert mark.startswith("[grader ")
    assert push("--link", "javascript:alert(1)")[0] == 2


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"published": False}, "it is not published"),
        ({"in_closed_grading_period": True}, "its grading period is closed"),
        ({"grading_type": "gpa_\x1bscale"}, "it is graded by gpa_\\x1bscale, not by points"),
        ({"group_category_id": 4}, "each grade would go to a whole group"),
        ({"moderated_grading": True}, "its grading is moderated"),
    ],
)
def test_an_assignment_that_cannot_be_graded_is_one_sentence(push, canvas, changes, sentence):
    canvas.assignment |= changes
    code, said, last = push("--apply")
    assert (code, said) == (2, "")
    assert last.startswith("grader: Canvas' assignment cannot be graded: ")
    assert sentence in last
    assert canvas.writes() == []


def test_points_are_scaled_and_rounded_as_the_policy_says(push, canvas, tmp_path):
    canvas.assignment["points_possible"] = 10.0
    rules = tmp_path / "rules.toml"
    rules.write_text("[policy]\ncanvas_points = 10\ncanvas_decimals = 0\n")
    push("--policy", rules, "--apply")
    assert canvas.scores() == {11: 0, 12: 10, 13: 0, 14: 10, 15: 0}
    rules.write_text("[policy]\ncanvas_points = 7\n")
    push("--policy", rules, "--apply")
    assert canvas.scores()[12] == 7


def test_a_refused_student_gets_a_comment_and_no_points(push, canvas, book):
    with gradebook.writing(book) as opened, opened._database as db:
        refused = "sources = NULL, refused = 'a.zip is not a zip'"
        db.execute(f"UPDATE attempt SET {refused} WHERE student IN ('s12', 's13')")
    canvas.submissions[13] |= {"score": 4.0, "entered_score": 4.0}
    (row,) = [line.split() for line in push()[1].splitlines() if "(s12" in line]
    assert row[-2:] == ["refused", "yes"]
    push("--apply")
    (comment,) = canvas.comments(12)
    assert "No points yet\nThis submission could not be graded: a.zip is not a zip." in comment
    assert (canvas.scores()[12], canvas.scores()[13]) == (None, 4)
    assert "0 students differ" in push("--apply")[1]
    canvas.submissions[12] |= {"score": 5.0, "entered_score": 5.0}
    with gradebook.writing(book) as opened:
        opened.decisions.override("s12", 6, reason="oral")
    push("--apply")
    assert canvas.scores()[12] == 6


@pytest.mark.parametrize("place", ["https://{}", "http://127.0.0.1:9", "https://127.0.0.1:99999"])
def test_a_host_that_does_not_answer_is_told_at_once(book, canvas, typed, place):
    """A server without TLS, a dead port and an impossible one: nothing is asked twice."""
    address = f"{place.format(canvas.url.partition('//')[2])}/courses/1/assignments/2"
    code, _, said = typed("push", "canvas", book, "--assignment", address)
    assert (code in (2, 3), "//127.0.0.1" in said, canvas.slept) == (True, True, []), said


def test_a_concluded_course_and_another_total_are_said(push, canvas):
    canvas.assignment |= {"points_possible": 50.0, "post_manually": True}
    code, said, last = push("--apply")
    assert (code, canvas.writes()) == (2, [])
    assert "Canvas' assignment is out of 50 points, ours out of 7" in said
    assert "write canvas_points = 50 into the policy to scale ours, or canvas_points = 7" in last
    assert "Canvas hides grades and comments of this assignment until you post them" in said
    canvas.course["concluded"] = True
    assert "the course is concluded" in push()[2]


REFUSED = "Canvas refuses this (user not authorized to perform that action)"


@pytest.mark.parametrize(
    ("fault", "sentence"),
    [
        (401, f"{REFUSED}: the token's own"),
        (403, f"{REFUSED}: the token's own"),
        (404, "Canvas has no such course or assignment, or the token's owner cannot see it"),
        (422, "Canvas refuses the request (422): user not authorized"),
        (302, "Canvas redirects to 127.0.0.1:1: give the address that it redirects to"),
    ],
)
def test_a_refusal_is_one_sentence(push, canvas, fault, sentence):
    """A redirect is not followed, so the token goes nowhere else."""
    canvas.faults.append(("GET /api/v1/courses/1", fault))
    code, said, last = push("--apply")
    assert (code, said) == (2, "")
    assert sentence in last
    assert len(canvas.log) == 1


@pytest.mark.parametrize(
    ("tree", "link", "sentence"),
    [
        ("[" * 100_000, "", "Canvas' answer is not as documented"),
        ([{"user_id": None}], "", "Canvas hides the names"),
        ([{"user_id": "\x1b[2J"}], "", "Canvas' answer is not as documented"),
        ({"a": 1}, "", "Canvas' answer is not as documented"),
        ([], '<{}.evil.example/x>; rel="next"', ".evil.example, where the token must not go"),
    ],
    ids=range(5),
)
def test_an_answer_of_another_kind_is_one_sentence(push, canvas, monkeypatch, tree, link, sentence):
    answer = {"link": link.format(canvas.url)}
    monkeypatch.setattr(Handler, "submissions", lambda it, query: it.answer(200, tree, **answer))
    code, _, last = push("--apply")
    assert (code, sentence in last, "\x1b" in last) == (2, True, False)


@pytest.mark.parametrize(
    ("address", "is_right"),
    [
        *(
            (it, True)
            for it in ("https://c.example", "https://C.example:8443", "http://localhost:80")
        ),
        *((it, False) for it in ("http://c.example", "http://localhost.evil.example", "file://")),
        *((it, False) for it in ("https://user:word@c.example", "https://c.example/courses/1/x")),
        ("https://c.example\\@evil.example", False),
    ],
)
def test_the_address_is_that_of_an_assignment_with_tls(address, is_right):
    path = "/courses/1/assignments/2"
    for more in ("", "/", "?x=1#y"):
        if is_right:
            assert str(canvas_api.place_of(address + path + more)) == address.lower() + path
        else:
            with pytest.raises(UsageError, match=r"expected the assignment's|must begin with http"):
                canvas_api.place_of(address + path + more)


def test_the_token_is_read_from_a_file_that_only_its_owner_can_read(tmp_path, monkeypatch):
    file = tmp_path / "token"
    file.write_text(f"{TOKEN}\n")
    for mode in (0o644, 0o640, 0o602):
        file.chmod(mode)
        with pytest.raises(UsageError, match=rf"has mode {mode:o}.*chmod 600") as caught:
            canvas_api.read_token(file)
        assert TOKEN not in str(caught.value)
    file.chmod(0o600)
    assert canvas_api.read_token(file) == TOKEN
    monkeypatch.setenv("CANVAS_TOKEN", "a\nb")
    with pytest.raises(UsageError, match="has a character that no token"):
        canvas_api.read_token(None)
    monkeypatch.delenv("CANVAS_TOKEN")
    with pytest.raises(UsageError, match="there is no token"):
        canvas_api.read_token(None)
    with pytest.raises(UsageError, match=r"expected a file|cannot be read"):
        canvas_api.read_token(tmp_path)


def test_the_token_is_in_no_text(push, canvas, book, typed, monkeypatch):
    """Not in what is printed, in a traceback with a fault of ours, or in the gradebook."""
    said = "".join(map(str, [*push("--apply"), *push("--apply")]))
    canvas.faults.extend([("courses/1", fault) for fault in (500, "cut", "lost", 401)])
    said += "".join(map(str, push()))
    api = canvas_api.CanvasApi(canvas_api.place_of(canvas.address), TOKEN)
    said += repr(api)
    canvas.course["name"] = TOKEN  # a server that sends it back
    said += "".join(map(str, push()))
    monkeypatch.setattr(canvas_api, "urlencode", lambda fields: 1 / 0)
    said += "".join(map(str, push()))
    assert "ZeroDivisionError" in said
    assert TOKEN not in said + typed.err
    assert TOKEN.encode() not in book.read_bytes()
    assert all(TOKEN not in line for line in canvas.log)


def test_hostile_texts_cannot_command_the_terminal(push, canvas, typed):
    canvas.course["name"] = canvas.assignment["name"] = HOSTILE_NAME
    canvas.poison = {12: 422}
    said = "".join(map(str, [*push(), *push("--apply")])) + typed.err
    assert "\\u202eevil" in said
    assert {c for c in said if not c.isprintable() and c != "\n"} == set()


def test_a_student_number_of_canvas_comes_from_the_roster_alone():
    assert canvas_user(Student(id="a", columns={"Canvas user ID": "12"})) == 12
    assert canvas_user(Student(id="12", columns={"SIS User ID": "x"})) == 12
    for student in (
        Student(id="12"),
        Student(id="12", columns={"sid": "12"}),
        Student(id="a", columns={"canvas_id": "-1"}),
        Student(id="a", columns={"canvas_id": "\u0661"}),
        Student(id="a", columns={"canvas_id": ""}),
    ):
        assert canvas_user(student) is None
