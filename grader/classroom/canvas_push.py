"""Push a class's points and comments to Canvas, as often as one likes.

What Canvas has is read back before and after each push, and only differences are sent. So a push
that was cut off continues, and a second push changes nothing. The gradebook records each comment
before it is sent and after Canvas has taken it. A comment also ends with a mark, by which it is
recognised in Canvas. If an answer of Canvas was lost, a comment is sent again only after `SETTLES`,
because the request that contains it may still be waiting there.

Our points already include our late penalty, and Canvas may have a late policy of its own. It then
would take points a second time from those whom it calls late, so a person has to choose.
"""

import hashlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Literal

from grader.base import interrupts
from grader.base.errors import EndsCommand, UsageError
from grader.classroom import canvas_api
from grader.classroom.canvas_api import CanvasApi, CanvasAssignment, CanvasCourse, CanvasSubmission
from grader.classroom.canvas_csv import canvas_user
from grader.classroom.class_records import Pushed, Standing, State, Student, called
from grader.classroom.gradebook import Gradebook
from grader.report.shared_wording import number
from kit.safe_text import counted, first, one_line

SETTLES = timedelta(minutes=15)  # how long a request may wait in Canvas
PAUSES = (2.0, 5.0, 10.0, 20.0, 30.0)  # seconds between looks at what became of a lost request
EQUAL = 0.0051  # points; Canvas may round to two decimals
SHOWN = 20  # students named in a note

Late = Literal["ours", "both", ""]


@dataclass(frozen=True)
class PendingPush:
    student: Student
    user: int  # the student's number in Canvas
    before: float | None  # the points in Canvas; None if there are none
    points: float | None  # our points; None if nothing could be graded
    grade: bool  # whether the points are sent
    comment: str  # the comment that is sent, with its mark; empty for none
    waits: bool  # whether a comment may be on its way already, so that it is not sent now
    exempt: bool  # whether Canvas is told that the submission is not late

    @property
    def mark(self) -> str:
        return self.comment.rpartition("\n")[2]

    @property
    def fields(self) -> dict[str, str]:
        """What Canvas is sent; empty for nothing."""
        points = number(self.points, 4) if self.grade and self.points is not None else ""
        found = {
            "submission[posted_grade]": points,
            "submission[late_policy_status]": "none" if self.exempt else "",
            "comment[text_comment]": self.comment,
        }
        return {name: value for name, value in found.items() if value}


@dataclass
class Difference:
    # What a push would send, and the comments that wait.
    changes: list[PendingPush] = field(default_factory=list)
    same: int = 0  # the number of students of whom Canvas has everything
    left: defaultdict[str, list[str]] = field(default_factory=lambda: defaultdict(list))

    @property
    def notes(self) -> list[str]:
        return [
            f"{counted(len(who), 'student is', 'students are')} left alone, because {why}: "
            f"{first(who, SHOWN)}"
            for why, who in self.left.items()
        ]


@dataclass(frozen=True)
class PushRules:
    # For each student's id, the text of the comment; empty to send none.
    comments: Mapping[str, str] = field(default_factory=dict)
    penalises: bool = False  # whether our points contain a late penalty
    deducts: bool = False  # whether Canvas' late policy takes points
    # "ours" if only our penalty counts, "both" with Canvas', "" if a person has to choose.
    late: Late = ""
    # Whether points that somebody changed in Canvas after our push are replaced.
    overwrite: bool = False


def mark(text: str) -> str:
    """A mark of a comment, with which the comment ends."""
    return f"[grader {hashlib.sha256(text.encode()).hexdigest()[:10]}]"


def require_gradable(course: CanvasCourse, assignment: CanvasAssignment) -> None:
    """Refuse an assignment whose grades cannot be set, or mean something else than points."""
    for is_so, why in (
        (course.concluded, "the course is concluded"),
        (not assignment.published, "it is not published"),
        (assignment.in_closed_grading_period, "its grading period is closed"),
        (
            assignment.grading_type not in ("points", "percent"),
            f"it is graded by {one_line(assignment.grading_type, 40)}, not by points",
        ),
        (
            assignment.group_category_id and not assignment.grade_group_students_individually,
            "each grade would go to a whole group: let Canvas assign grades to each student",
        ),
        (
            assignment.moderated_grading and not assignment.grades_published,
            "its grading is moderated",
        ),
    ):
        if is_so:
            raise UsageError(f"Canvas' assignment cannot be graded: {why}")


def difference(
    standings: Sequence[Standing],
    submissions: Iterable[CanvasSubmission],
    pushed: Mapping[str, Pushed],
    rules: PushRules,
    now: datetime,
) -> Difference:
    """Compare a class with what Canvas has.

    A submission may occur twice, if pages moved while they were read. `pushed` is what was sent
    earlier, by student.

    Raises:
        UsageError: Canvas does not say whose submission is whose.
    """
    by_user: dict[int, CanvasSubmission] = {}
    for one in submissions:
        if one.user_id is None:
            raise UsageError("Canvas hides the names: turn anonymous grading off for this push")
        by_user[one.user_id] = one
    users = [canvas_user(one.student) for one in standings]
    found = Difference()
    for standing, user in zip(standings, users, strict=True):
        theirs = by_user.get(user) if user is not None else None
        before = pushed.get(standing.student.id, Pushed())
        if why := _left_alone(standing, user, theirs, before, rules, users):
            found.left[why].append(called(standing.student))
        elif user is not None and theirs is not None and _is_told(standing, theirs):
            change = _change(standing, user, theirs, before, rules, now)
            if change.fields or change.waits:
                found.changes.append(change)
            else:
                found.same += 1
    return found


def _left_alone(
    standing: Standing,
    user: int | None,
    theirs: CanvasSubmission | None,
    before: Pushed,
    rules: PushRules,
    users: list[int | None],
) -> str:
    """Why nothing is sent about a student; empty if something may be, or there is nothing."""
    if not (standing.state is State.GRADED and standing.points is not None) and (
        theirs is None or not _is_told(standing, theirs)
    ):
        has = theirs is not None and theirs.entered_score is not None
        return f"they have a grade in Canvas and none here ({standing.state.words})" if has else ""
    if not standing.student.listed:
        return "the roster does not have them"
    if user is None:
        return "the roster has no Canvas id of them (a column canvas_id, or Canvas' own export)"
    if users.count(user) > 1:
        return "the roster gives their Canvas id to several students"
    if theirs is None:
        return "Canvas has no such student in this assignment"
    if theirs.excused:
        return "Canvas excuses them"
    ours = [*before.points, standing.points]
    if (
        before.has_arrived
        and theirs.entered_score is not None
        and not rules.overwrite
        and not any(_equal(theirs.entered_score, points) for points in ours)
    ):
        return "their points were changed in Canvas after our push (--overwrite replaces them)"
    if rules.late == "" and _would_lose_twice(theirs, rules):
        return (
            "they are late and Canvas' late policy takes points, too (--late ours: only our "
            "penalty counts; --late both: both count)"
        )
    return ""


def _is_told(standing: Standing, theirs: CanvasSubmission) -> bool:
    if standing.state is State.REFUSED:
        return theirs.entered_score is None
    return standing.points is not None


def _would_lose_twice(theirs: CanvasSubmission, rules: PushRules) -> bool:
    takes = theirs.points_deducted or (theirs.late and rules.deducts)
    return rules.penalises and theirs.late_policy_status != "none" and bool(takes)


def _equal(one: float | None, other: float | None) -> bool:
    return one is not None and other is not None and abs(one - other) <= EQUAL


def _change(
    standing: Standing,
    user: int,
    theirs: CanvasSubmission,
    before: Pushed,
    rules: PushRules,
    now: datetime,
) -> PendingPush:
    text = rules.comments.get(standing.student.id, "")
    comment = f"{text}\n{mark(text)}" if text else ""
    event, at = before.comments.get(mark(text), ("failed", now))
    # A student may write a copy of a mark.
    said = [one for one in theirs.submission_comments if one.author_id != theirs.user_id]
    is_there = event == "done" or any(mark(text) in (one.comment or "") for one in said)
    waits = bool(comment) and not is_there and event == "sent" and now - at < SETTLES
    return PendingPush(
        student=standing.student,
        user=user,
        before=theirs.entered_score,
        points=standing.points,
        grade=standing.points is not None and not _equal(theirs.entered_score, standing.points),
        comment="" if is_there or waits else comment,
        waits=waits,
        exempt=rules.late == "ours" and _would_lose_twice(theirs, rules),
    )


def push(
    api: CanvasApi,
    book: Gradebook,
    found: Difference,
    compare: Callable[[], Difference],
    advance: Callable[[str, int, int], None],
) -> tuple[Difference, str]:
    """Send what differs, student by student; return what is left, and Canvas' last complaint.

    One whom Canvas refuses stops no other. `compare` reads what Canvas has, and `advance` shows the
    progress. If an answer is lost, the points are sent a second time, and the comment is not.
    """
    complaint = ""
    for _ in range(2):
        todo = [one for one in found.changes if one.fields]
        for number_, one in enumerate(todo):
            interrupts.stop_if_seen()
            advance(one.student.id, number_, len(todo))
            try:
                complaint = _send(api, book, one) or complaint
            except canvas_api.CanvasUnclear as e:
                complaint = str(e)
                _settle(api, compare, one.user)
        found = compare()
    return found, one_line(complaint, 300)


def _send(api: CanvasApi, book: Gradebook, one: PendingPush) -> str:
    """Send what differs about a student; return why Canvas refuses it, or nothing."""
    about = (str(api.place), one.student.id, one.points, one.mark)
    book.pushes.note(*about, "sent")
    try:
        api.give(one.user, one.fields)
    except canvas_api.CanvasRefused as e:
        book.pushes.note(*about, "failed")
        return str(e)
    except EndsCommand:
        book.pushes.note(*about, "failed")
        raise
    book.pushes.note(*about, "done")
    return ""


def _settle(api: CanvasApi, compare: Callable[[], Difference], user: int) -> None:
    """Wait until Canvas shows the changes of a request whose outcome is unknown, or for a while."""
    for pause in PAUSES:
        api.sleep(pause)
        if user not in {one.user for one in compare().changes}:
            return
