"""The kinds of trials: what each of them has to show, in one table.

A trial is one of our own submissions, graded on one problem. `KINDS` is the only place that knows
the kinds; `validate.py` makes trials and runs them.
"""

from collections.abc import Callable
from dataclasses import dataclass

from grader.base.errors import Status
from grader.results.points import ALL_MINOR
from grader.results.result_records import ProblemResult, TestResult, worst
from kit.safe_text import counted

# A submission that checks no arguments may lose at most this share of a problem's points: what
# tests of wrong calls are worth at most if they are marked so.
MOST_OF_CHECKS = 1 / ALL_MINOR
# How tests of a wrong solution may end. The limit of memory is the same on every machine.
CAUGHT = (Status.FAILED, Status.MEMORY)
ROUNDING = 1e-9
# What a problem may decline besides kinds of trials, with a reason.
OTHER_RULES = ("harm", "public")


@dataclass(frozen=True)
class Row:
    """The outcome of one trial."""

    problem: str  # the problem's id
    kind: str  # a name in `KINDS`
    name: str  # the name of the trial within its kind
    seed: int  # the seed that it was graded with
    score: float  # points earned
    max_score: float  # points that could be earned on the trial's device
    failed: list[str]  # the tests for that device that did not pass
    complaint: str  # what differs from the required outcome; empty if nothing does
    share: float = 0.0  # the share of the problem that it lost on that device
    reason: str = ""  # why a wrong solution costs so much, or a mutant need not be detected
    price: float = 0.0  # the points of the problem that are this share
    told: str | None = None  # the first public test that it fails; "" if none, None if not run


@dataclass(frozen=True)
class Judged:
    """How the tests of its problem ended on one trial."""

    result: ProblemResult
    device: str = "cpu"  # the device whose tests were run
    excused: str = ""  # why a mutant need not be detected
    most: float | None = None  # the most points that it may earn
    is_never_sent: bool = False  # whether no test asked for the field that it changes
    blind: tuple[str, ...] = ()  # the tests that pass although a whole answer was cut

    @property
    def tests(self) -> list[TestResult]:
        """The tests for this device."""
        return [test for test in self.result.tests if test.device == self.device]

    @property
    def lost(self) -> list[TestResult]:
        """The tests for this device that did not pass."""
        return [test for test in self.tests if test.status is not Status.PASSED]

    @property
    def share(self) -> float:
        """The share of the problem that was lost, by the weights of its tests for this device."""
        whole = sum(test.weight for test in self.tests)
        return sum(test.weight for test in self.lost) / whole if whole else 0.0


def _nothing(judged: Judged) -> str:
    return ""


def _loses(judged: Judged) -> str:
    lost = judged.lost
    if not lost:
        return ""
    first = lost[0].id
    which = f"{len(lost)} tests fail, the first is {first}" if lost[1:] else f"{first} fails"
    return f"{which}: {lost[0].said}"


def _was_attempted(judged: Judged) -> str:
    for test in judged.tests:
        if test.status is not Status.NOT_ATTEMPTED:
            return (
                f"{test.id} is {test.status}; a stub earns 0 as not_attempted: "
                "mark the solution inside each function"
            )
    return ""


def _is_not_caught(judged: Judged) -> str:
    if not judged.lost:
        return "it passes every test; a wrong solution has to be caught"
    if (status := worst([test.status for test in judged.lost])) not in CAUGHT:
        return f"its status is {status}: {judged.lost[0].said}"
    if judged.most is not None and judged.result.score > judged.most + 0.005:
        return f"it earns {judged.result.score:.2f} points, and may earn at most {judged.most:g}"
    return ""


def _passes(judged: Judged) -> str:
    passed = [test.id for test in judged.tests if test.status is Status.PASSED]
    verb = "pass" if passed[1:] else "passes"
    what_to_do = "ask for other answers too, or first for a right call (expect.right_call)"
    return f"{', '.join(passed)} {verb} with this answer; {what_to_do}" if passed else ""


def _costs_much(judged: Judged) -> str:
    if judged.share <= MOST_OF_CHECKS + ROUNDING:
        return ""
    lost = ", ".join(test.id for test in judged.lost)
    return f"it loses {100 * judged.share:.1f} %, more than {100 * MOST_OF_CHECKS:g}: {lost}"


def _is_not_looked_at(judged: Judged) -> str:
    if judged.blind:
        first = judged.blind[0]
        return f"{first} passes without these answers; zip with strict=True, or count them"
    if judged.lost or judged.is_never_sent:
        return ""
    return "no test looks at this field; let one look at it, or let the probe not return it"


def _is_not_noticed(judged: Judged) -> str:
    if judged.lost and judged.excused:
        return f"it is listed as equivalent, but {judged.lost[0].id} notices it"
    if judged.lost or judged.excused:
        return ""
    listed = "solutions/mutants.toml, below the problem's id"
    return f'no test notices it; write one, or list it in {listed}: "its name" = "why none can"'


def _as_required(rows: list[Row], one: str, several: str) -> str:
    names = len({(row.problem, row.name) for row in rows})
    good = sum(not row.complaint for row in rows)
    return f"{counted(names, one, several)}, {good} of {len(rows)} trials as required"


def _of_references(rows: list[Row], *_: str) -> str:
    best = {row.problem: row.max_score for row in rows}
    score = {p: min(row.score for row in rows if row.problem == p) for p in best}
    where = counted(len(best), "problem")
    if not any(best.values()):
        return f"reference in {where}, without points on this device"
    return f"reference {sum(score.values()):g} of {sum(best.values()):g} in {where}"


def _of_mutants(rows: list[Row], one: str, several: str) -> str:
    noticed = sum(bool(row.failed) for row in rows)
    listed = sum(bool(row.reason) for row in rows)
    percent = f"{100 * noticed / len(rows):.1f} %"
    count = counted(len(rows), one, several)
    return f"{count}, {noticed} noticed ({percent}), {listed} listed as equivalent"


@dataclass(frozen=True)
class Kind:
    """One kind of trials."""

    name: str
    called: str  # what such a trial is called, with a | where several have an s
    complaint: Callable[[Judged], str]  # what differs from the required outcome
    every: int = 1  # of how many trials a quick run tries one
    runs_public: bool = False  # whether public tests run, too; it passes them unless it is wrong
    may_be_declined: bool = False  # whether a problem may decline it with a reason
    is_light: bool = False  # whether it costs the author nothing, so that `--light` tries it
    breaks_answers: bool = False  # whether a test may raise an exception of its own over it
    needs_sandbox: bool = False  # whether only a sandbox can judge it
    # The line of the summary about these trials.
    summary: Callable[[list[Row], str, str], str] = _as_required

    def line(self, rows: list[Row]) -> str:
        """The line of the summary about these trials."""
        return self.summary(rows, self.called.replace("|", ""), self.called.replace("|", "s"))


KINDS = {
    kind.name: kind
    for kind in (
        Kind("reference", "reference|", _loses, is_light=True, summary=_of_references),
        Kind("stub", "stub|", _was_attempted, is_light=True),
        Kind(
            "wrong", "wrong solution|", _is_not_caught, every=12, runs_public=True, is_light=True
        ),
        Kind("variant", "variant|", _loses, every=4, runs_public=True, is_light=True),
        Kind("junk", "constant answer|", _passes, every=40, may_be_declined=True, is_light=True),
        Kind(
            "words", "reference| in other words", _loses,
            every=5, runs_public=True, may_be_declined=True, is_light=True,
        ),
        Kind(
            "unchecked", "reference| without checks", _costs_much,
            every=5, may_be_declined=True,
        ),
        Kind(
            "types", "reference| with other types", _loses,
            every=20, runs_public=True, may_be_declined=True, is_light=True,
        ),
        Kind(
            "arithmetic", "reference| by other arithmetic", _loses,
            every=10, runs_public=True, may_be_declined=True,
        ),
        Kind(
            "unwritten", "reference| of unwritten memory", _is_not_caught,
            every=5, may_be_declined=True, needs_sandbox=True,
        ),
        Kind(
            "hostile", "reference| with a hostile value in an answer", _nothing,
            every=60, may_be_declined=True, is_light=True, breaks_answers=True,
        ),
        Kind(
            "import", "reference| whose import does more", _loses,
            every=5, may_be_declined=True, needs_sandbox=True,
        ),
        Kind(
            "field", "field| of answers", _is_not_looked_at,
            every=20, may_be_declined=True, breaks_answers=True,
        ),
        Kind("mutant", "mutant|", _is_not_noticed, is_light=True, summary=_of_mutants),
    )
}  # fmt: skip
DECLINABLE = (*(kind.name for kind in KINDS.values() if kind.may_be_declined), *OTHER_RULES)
HOW_TO_DECLINE = (
    "where the course is right and the requirement is not, the problem's entry in problems.toml "
    'can decline it: declined = {"KIND NAME" = "the reason"}'
)
