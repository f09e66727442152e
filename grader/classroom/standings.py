"""Each student's standing: the attempt that counts, the late penalty, and open decisions."""

import shlex
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from contextlib import suppress

import msgspec

from grader.base.errors import UsageError, did_you_mean, no_such
from grader.classroom.class_records import Standing, State, Student, called
from grader.classroom.gradebook import Gradebook
from grader.classroom.roster import folded
from grader.classroom.setups import Setup
from grader.classroom.stored_attempts import Attempt
from grader.classroom.stored_results import Grade
from grader.course import late_policy
from grader.course.courses import Course, Problem
from grader.course.late_policy import Policy, kept
from grader.report.gradebook_notes import Override, RegradeRequest
from grader.results.points import submission_result
from grader.results.result_records import GraderInfo, SubmissionInfo, SubmissionResult
from kit.handing_in import Accepted
from kit.safe_text import counted, first, one_line


class Class:
    """An open gradebook, its course, and its rules: those given, stored, or of policy.toml."""

    def __init__(self, book: Gradebook, course: Course, rules: Policy | None = None) -> None:
        self.book = book
        self.course = course
        self._given = rules or book.policy() or late_policy.load(course.policy)

    @property
    def rules(self) -> Policy:
        """The rules, with the late days that each student has used in other assignments."""
        used: Counter[str] = Counter()
        entries = self.book.students.entries
        for student, days in self._given.late_days_used.items():
            used[entries.id_of(student)] += days  # also under former ids
        return msgspec.structs.replace(self._given, late_days_used=dict(used))

    @property
    def max_score(self) -> float:
        """The most points that the gradebook's runs can give together."""
        return self._max_score(self.book.results.counting())

    def _max_score(self, numbers: Sequence[int]) -> float:
        found = [self.book.setups.get(number) for number in numbers]
        graded = {problem for setup in found for problem in setup.problems}
        devices = {"cpu", "cuda"} if any("cuda" in setup.device for setup in found) else {"cpu"}
        known = {p.id: p.points for p in self.course.problems if p.device in devices}
        elsewhere = {p.id for p in self.course.problems} - known.keys()
        points = known | self.book.results.points(numbers)
        return float(sum(points.get(one, 0.0) for one in graded - elsewhere))

    @property
    def handout_links(self) -> dict[str, str]:
        """For each problem's id, the address of its section of the handout."""
        return self.course.handout_links(self.rules.handout_url)

    def problem(self, name: str) -> Problem:
        """A problem of the course; a UsageError if there is none."""
        known = {problem.id: problem for problem in self.course.problems}
        if name not in known:
            raise UsageError(f"problem {one_line(name, 50)}: {no_such('problem', name, known)}")
        return known[name]

    def sources(self, standing: Standing) -> dict[str, bytes]:
        """The sources of the attempt that counts; empty if there are none, or they are damaged."""
        with suppress(UsageError):
            return (
                self.book.attempts.submission(standing.sources).sources if standing.sources else {}
            )
        return {}

    def standings(self, *, setups: Sequence[int] | None = None) -> list[Standing]:
        """Every student's standing, by id; see the function `standings`."""
        setups = self.book.results.counting() if setups is None else setups
        found = standings(self.book, self.rules, self._max_score(setups), setups=setups)
        paths, accepted = self.book.attempts.paths(), self.course.accepted
        return [_of_another_course(s, paths.get(s.sources or "", set()), accepted) for s in found]

    def standing(self, student: str, *, by_beginning: bool = False) -> Standing:
        """The standing of the student whom a person means; see `find`."""
        wanted = self.find(student, by_beginning=by_beginning)
        return next(one for one in self.standings() if one.student.id == wanted)

    def find(self, text: str, *, by_beginning: bool = False, removed: bool = False) -> str:
        """The id of the student with this id, or else name, address or former id, in any case.

        With `by_beginning`, the beginning of one of these is enough; with `removed`, the students
        who were removed are found, too.

        Raises:
            UsageError: The gradebook does not have the student, or several fit.
        """
        entries = self.book.students.entries
        known = self.book.students.all(removed=True)
        found = _meant(text, known, {one.id: entries.of(one.id) for one in known}, by_beginning)
        if len(found) > 1:
            some = first([one_line(f"{one.id} {one.name}", 100) for one in found], 9)
            raise UsageError(
                f"{self.book.path} has {len(found)} students {one_line(text, 100)}: {some}; "
                "name one by the id"
            )
        if not found:
            if not text.strip():
                raise UsageError("the student is empty: expected an id, a name or an address")
            meant = did_you_mean(text, [word for one in known for word in (one.id, one.name)])
            how = meant or f"; `grader status {self.book.path} --verbose` lists all"
            raise UsageError(f"{self.book.path} has no student {one_line(text, 100)}{how}")
        gone = entries.removed.get(found[0].id)
        if gone is not None and not removed:
            undo = shlex.join(
                ["grader", "remove-student", gone.student, "--gradebook", str(self.book.path)]
            )
            raise UsageError(
                f"{called(found[0])} was removed by {one_line(gone.who, 50)} at {gone.at} "
                f"({one_line(gone.reason, 200)}); `{undo} --undo` brings the student back"
            )
        return found[0].id

    def reportable(self, standing: Standing) -> SubmissionResult | None:
        """What a student's report shows: also of an attempt that was refused, so that they know."""
        setups = self.book.results.counting()
        if standing.attempt and standing.sources is None and setups:
            attempt = self.book.attempts.all(standing.student.id)[standing.attempt - 1]
            return _nothing_graded(attempt, self.book.setups.get(setups[0]))
        return self.result(standing)

    def result(self, standing: Standing) -> SubmissionResult | None:
        """The whole result of the attempt that counts, with the name of that attempt."""
        result = self.book.results.first_result(standing.sources, self.book.results.counting())
        if result is None:
            return None
        # Another student may have handed in the same sources first.
        attempt = self.book.attempts.all(standing.student.id)[standing.attempt - 1]
        of = msgspec.structs.replace(result.submission, name=attempt.name, ignored=attempt.ignored)
        return msgspec.structs.replace(result, submission=of)


def _of_another_course(standing: Standing, paths: set[str], accepted: Accepted) -> Standing:
    """A standing that says so if a submission has modules, and none is one of this course."""
    others = {path for path in paths - {*accepted.given} if path.endswith(".py")}
    if not others or others & {*accepted.modules}:
        return standing
    have = counted(len(others), "module")
    why = f"none of its {have} belongs to this assignment: was another one handed in?"
    return _noted(standing, why)


def _noted(standing: Standing, why: str) -> Standing:
    return msgspec.structs.replace(standing, why="; ".join(filter(None, [standing.why, why])))


def _nothing_graded(attempt: Attempt, setup: Setup) -> SubmissionResult:
    """The result of a refused attempt, for a report: no problem, and no point."""
    info = SubmissionInfo(name=attempt.name, sha256="", files=[], ignored=attempt.ignored)
    same = ("version", "suite_sha256", "device", "isolation", "seed")
    run = GraderInfo(**{name: getattr(setup, name) for name in same})
    return submission_result(info, run, [], seconds=0.0)


def why_it_counts(standing: Standing, policy: Policy) -> str:
    """Why this attempt of a student counts; empty if there is only one."""
    if standing.attempts < 2:
        return ""
    if policy.counts == "best":
        return f"the best of {standing.attempts} after late penalties"
    if standing.days_late:
        return "all attempts are late, and the first one has the smallest penalty"
    return f"the latest of {standing.attempts} attempts that costs no late penalty"


def _meant(
    text: str, students: list[Student], entries: Mapping[str, Sequence[str]], by_beginning: bool
) -> list[Student]:
    """The students who are meant, from the first kind of match that has any."""
    if exact := [one for one in students if one.id == text]:
        return exact
    wanted = folded(text)
    texts = {
        one.id: [folded(t) for t in (one.id, *entries.get(one.id, ()), one.name, one.email) if t]
        for one in students
    }
    if same := [one for one in students if wanted and wanted in texts[one.id]]:
        return same
    if not by_beginning or not wanted:
        return []
    begins = {key: [*of, *(w for t in of for w in t.split())] for key, of in texts.items()}
    return [one for one in students if any(t.startswith(wanted) for t in begins[one.id])]


def standings(
    book: Gradebook,
    policy: Policy,
    max_score: float,
    *,
    setups: Sequence[int] | None = None,
) -> list[Standing]:
    overrides, extensions = book.decisions.overrides(), book.decisions.extensions()
    comments = book.feedback.comments()
    requests = defaultdict[str, list[RegradeRequest]](list)
    for one in book.feedback.requests():
        requests[one.student].append(one)
    grades = _grades(book, book.results.counting() if setups is None else setups)
    attempts = defaultdict[str, list[Attempt]](list)
    for attempt in book.attempts.all():
        attempts[attempt.student].append(attempt)
    found = []
    for student in book.students.all():
        deadline = policy.deadline(student.section, extensions.get(student.id))
        empty = Standing(
            student=student,
            state=State.MISSING,
            max_score=max_score,
            deadline=deadline,
            attempts=len(attempts[student.id]),
            comments=comments.get(student.id, []),
            requests=requests[student.id],
        )
        each = [
            _of_attempt(empty, number, attempt, grades, policy)
            for number, attempt in enumerate(attempts[student.id], start=1)
        ]
        chosen = _chosen(each, policy) if each else empty
        found.append(_overridden(chosen, overrides.get(student.id, [])))
    return found


def _grades(book: Gradebook, setups: Sequence[int]) -> dict[str, Grade]:
    """The grades, by the hash of their sources; if both devices have a run, it needs both."""
    each = {book.setups.get(n).device: book.results.grades(n) for n in setups}
    if not {"cpu", "cuda"} <= each.keys():
        return next(iter(each.values()), {})
    found = dict(each.get("cpu+cuda", {}))
    for device in ("cpu", "cuda"):
        for sources, grade in each[device].items():
            if sources not in found and grade.fault:
                found[sources] = grade
    return found


def _of_attempt(
    empty: Standing, number: int, attempt: Attempt, grades: dict[str, Grade], policy: Policy
) -> Standing:
    """A student's standing if this attempt counted."""
    grade = grades.get(attempt.sources or "")
    begun = policy.days_begun(attempt.submitted_at, empty.deadline)
    used = min(begun, policy.free_days(empty.student.id))
    state, why = State.GRADED, ""
    if attempt.sources is None:
        state, why = State.REFUSED, attempt.refused
    elif grade is None:
        state, why = State.NOT_GRADED, "it has not been graded yet, or not on each device"
    elif grade.fault:
        state, why = State.GRADER_ERROR, grade.fault
    elif attempt.late and attempt.submitted_at is None:
        why = "it was marked late, but its time is unknown, so there is no penalty"
    elif begun > LONG:
        why = f"it is {begun} days late: is its time right?"
    if not empty.student.listed:
        why = "; ".join([*filter(None, [why]), "the roster does not have this student"])
    standing = msgspec.structs.replace(
        empty,
        state=state,
        attempt=number,
        sources=attempt.sources,
        submitted_at=attempt.submitted_at,
        days_late=begun - used,
        free_days=used,
        penalty=policy.penalty(begun - used),
        why=why,
    )
    if grade is None or state is not State.GRADED:
        return standing
    return msgspec.structs.replace(
        standing,
        points=kept(grade.score, standing.penalty),
        score=grade.score,
        pending=grade.pending,
        problems=grade.problems,
    )


def _chosen(each: list[Standing], policy: Policy) -> Standing:
    """The attempt that counts; one without a grade may be the best, so it is graded first."""
    if policy.counts == "best":
        return max(each, key=lambda one: (one.state in WAITS, one.points or 0.0, one.attempt))
    chosen = next((one for one in reversed(each) if one.days_late == 0), each[0])
    if chosen.submitted_at and any(one.submitted_at is None for one in each):
        return _noted(chosen, "an attempt without a time counts as earlier than this one")
    return chosen


LONG = 60  # days after which a wrong month or year is likelier than a late student
WAITS = (State.NOT_GRADED, State.GRADER_ERROR)


def _overridden(standing: Standing, overrides: list[Override]) -> Standing:
    """Apply overrides: those of a problem have the late penalty, and alone make no grade."""
    points = standing.points
    for one in overrides:
        if one.problem and points is not None:
            change = one.points - standing.problems.get(one.problem, 0.0)
            points += kept(change, standing.penalty)
    if totals := [one.points for one in overrides if not one.problem]:
        points = totals[-1]
    state = standing.state if points is None else State.GRADED
    return msgspec.structs.replace(standing, state=state, points=points, overrides=overrides)
