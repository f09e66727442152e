"""What every report of one submission shows, computed once; the formats only lay it out."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from rich.console import Console

from grader.base.errors import Status
from grader.course.late_policy import Shows
from grader.report.gradebook_notes import FinalGrade, Note, notes, remarks
from grader.report.lost_points import Reason, reasons_in
from grader.report.shared_wording import clean, in_column, number
from grader.results.result_records import SubmissionResult
from kit import handing_in

# For each device that deferred tests may need: why their points are pending, and a name for them.
PENDING = {
    "cuda": (
        "they need a CUDA device (grade with --device cuda, then `grader merge`)",
        "for a CUDA device",
    ),
    "cpu": ("their tests run on a CPU (grade with --device cpu, then `grader merge`)", "for a CPU"),
}


@dataclass(frozen=True)
class RemainingStubs:
    problems: list[str]  # the ids of their problems
    names: list[str]  # whole problems, or a problem followed by its functions that are still stubs
    points: float  # the points of their tests


@dataclass(frozen=True)
class Reported:
    """A result, and everything else that its reports show."""

    result: SubmissionResult
    # The student's grade, whose points replace the result's score; None outside a class.
    grade: FinalGrade | None = None
    # The graded sources, which the page quotes; empty if they are unavailable.
    sources: Mapping[str, bytes] = field(default_factory=dict)
    # For each problem's id, the section of the handout.
    sections: Mapping[str, str] = field(default_factory=dict)
    # For each problem's id, the address of that section, if it has one.
    links: Mapping[str, str] = field(default_factory=dict)
    shows: Shows = field(default_factory=Shows)  # what Gradescope shows to students
    # Whether the terminal shows every reason with all details, not only the costliest.
    verbose: bool = False
    console: Console | None = None  # the terminal that its report is printed on; None for a file

    @property
    def points(self) -> float | None:
        """The points that count: the gradebook's or, without a gradebook, the result's score.

        None if the grader failed, or nothing could be graded, and nobody has given points by hand.
        """
        if self.grade is not None and (self.grade.points is not None or not self.result.problems):
            return self.grade.points
        return None if self.result.has_grader_error else self.result.score

    @property
    def out_of(self) -> float:
        """The points that there are in the gradebook or, without one, on this device."""
        if self.grade is not None and self.grade.max_score is not None:
            return self.grade.max_score
        return self.result.max_score

    @property
    def headline(self) -> str:
        """The points that count, in words."""
        if self.points is None:
            return "No points yet"
        return f"{number(self.points)} of {number(self.out_of)} points"

    @property
    def remarks(self) -> list[str]:
        """What a student should know about the points, one plain sentence each."""
        return [*remarks(self.result, self.points, self.grade), *self.names, *self.measured]

    @property
    def names(self) -> list[str]:
        """Missing modules, and files that may be solutions under another name."""
        info = self.result.submission
        empty = [p for p in self.result.problems if p.status is Status.NOT_ATTEMPTED]
        paths = dict.fromkeys(handing_in.path_of(problem.module) for problem in empty)
        missing = ", ".join(path for path in paths if path not in info.files)
        return [f"Not in the submission: {clean(missing)}."] * bool(missing) + [
            f"{clean(one.path)} does not count as a module: {clean(one.reason)}"
            for one in info.ignored
            if handing_in.MEANT in one.reason
        ]

    @property
    def measured(self) -> list[str]:
        """What passed tests have recorded as "measured", one sentence each."""
        return [
            f"{problem.id}: {clean(fact.text)}."
            for problem in self.result.problems
            for test in problem.tests
            for fact in test.facts
            if test.status is Status.PASSED and fact.label == "measured"
        ]

    @cached_property
    def notes(self) -> list[Note]:
        """What people wrote: comments, and answers to regrade requests."""
        return notes(self.grade)

    @property
    def said(self) -> list[str]:
        """All sentences beside the tests: remarks, then what people wrote."""
        return [*self.remarks, *(note.text for note in self.notes)]

    @cached_property
    def reasons(self) -> list[Reason]:
        """Why points were lost: faults of the grader first, then the most expensive."""
        return reasons_in(self.result)

    @property
    def not_attempted(self) -> RemainingStubs:
        """The remaining stubs: whole problems, or functions of other problems."""
        problems, names, points = [], [], 0.0
        for problem in self.result.problems:
            missing = [t for t in problem.tests if t.status is Status.NOT_ATTEMPTED and t.max_score]
            functions = ", ".join(dict.fromkeys(f for t in missing if (f := t.about.split(".")[0])))
            if missing:
                points += sum(test.max_score for test in missing)
                problems.append(problem.id)
                is_whole = len(missing) == len(problem.counted) or not functions
                names.append(problem.id if is_whole else f"{problem.id} ({functions})")
        return RemainingStubs(problems, names, points)

    @property
    def pending(self) -> list[str]:
        """Sentences about pending points, and pending tests that are worth nothing until run."""
        lines = []
        deferred = [t for p in self.result.problems for t in p.tests if t.status is Status.DEFERRED]
        for device, (they_need, called) in PENDING.items():
            tests = [test for test in deferred if test.device == device]
            points = sum(test.max_score for test in tests)
            others = sum(not test.counts for test in tests)
            if points:
                lines.append(f"{in_column(points)} points are pending: {they_need}.")
            if others:
                what, are = ("test", "is") if others == 1 else ("tests", "are")
                also = " as well" if points else ""
                lines.append(f"{others} {what} {called} {are} pending{also}.")
        return lines

    @property
    def environments(self) -> list[str]:
        """The environment of each run, one line each, and the state of its GPU."""
        lines = []
        for run in self.result.runs or [self.result.grader]:
            for device, known in ((run.device, run.environment), ("gpu", run.readings)):
                said = " · ".join(f"{name} {value}" for name, value in known.items())
                lines += [f"{device}: {said}"] if said else []
        return lines

    @property
    def ignored(self) -> dict[str, list[str]]:
        """The names of the files that were not graded, by reason."""
        reasons: dict[str, list[str]] = {}
        for item in self.result.submission.ignored:
            reasons.setdefault(item.reason, []).append(item.path)
        return reasons


@dataclass(frozen=True)
class Format:
    render: Callable[[Reported], str]  # makes the text
    suffix: str = ""  # the suffix of its files
    file: str = ""
    folder: str = ""
    quotes: bool = False  # whether it quotes the student's code
