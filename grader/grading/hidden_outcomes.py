"""How each test function ended, over all its cases, and what prevented tests from running."""

from dataclasses import dataclass, field

import pytest
from msgspec.structs import replace

from grader.base.errors import Status
from grader.course.courses import HIDDEN_TESTS, Problem, id_of_test, problem_of_file
from grader.results.points import HARM, weights_by_harm
from grader.results.result_records import SUITE, Outcome, worst
from grader.solutions.known_mistakes import Mistake

# How a test may end without an answer of the student's that did not pass.
NO_ANSWERS = (Status.TIMEOUT, Status.MEMORY, Status.GRADER_ERROR)
# A test that was collected but never ran is the grader's fault, not a pass.
NEVER_RAN = Outcome(status=Status.GRADER_ERROR, what="the test was collected but did not run")


@dataclass(eq=False)
class TestFunction:
    """A test function, and how each of its cases ended."""

    __test__ = False  # keeps pytest from collecting this class as a test

    problem: Problem
    name: str
    device: str
    weight: int
    harm: str = ""  # a key of HARM, or empty
    cases: list[Outcome] = field(default_factory=list)
    mistake: Mistake | None = None
    seconds: float = 0.0

    @property
    def has_failed(self) -> bool:
        """Whether a case has ended other than passed, and not for want of time or memory."""
        return any(case.status not in (Status.PASSED, *NO_ANSWERS) for case in self.cases)

    def forget(self) -> None:
        """Forget how all its cases ended, because they run again."""
        self.cases, self.mistake, self.seconds = [], None, 0.0

    def outcome(self) -> Outcome:
        """How the function ended; the message comes from the first case that did not pass."""
        cases = self.cases or [NEVER_RAN]
        told = next((case for case in cases if case.status is not Status.PASSED), cases[0])
        return replace(
            told,
            id=self.name,
            device=self.device,
            weight=self.weight,
            status=worst([case.status for case in cases]),
            mistake=self.mistake.says if self.mistake else "",
            hint=self.mistake.hint if self.mistake else told.hint,
            seconds=self.seconds,
        )


class Outcomes:
    """The test functions of the problems that are graded."""

    def __init__(self, problems: list[Problem]) -> None:
        self._problems = {problem.id: problem for problem in problems}
        self._functions: dict[tuple[str, str], TestFunction] = {}
        # By problem, the fault of the grader that prevented its tests from running.
        self.faults: dict[str, str] = {}
        # The problems with a test that failed in a shared process, but not by a time-out, and
        # passed in a new one.
        self.in_doubt: set[str] = set()

    def problem_of(self, item: pytest.Item) -> Problem:
        """The problem that a test belongs to, by the name of its file."""
        return self._problems[problem_of_file(str(item.path))]

    def of(self, item: pytest.Item) -> TestFunction:
        """The function of a test, created when it is first requested.

        Every run collects the tests for all devices, so two results can be compared test by test.
        """
        problem = self.problem_of(item)
        device = "cuda" if item.path.name == HIDDEN_TESTS["cuda"] else "cpu"
        name = id_of_test(device, getattr(item, "originalname", None) or item.name)
        if (problem.id, name) not in self._functions:
            weight, harm = self._marks_of(item, problem)
            self._functions[problem.id, name] = TestFunction(problem, name, device, weight, harm)
        return self._functions[problem.id, name]

    def _marks_of(self, item: pytest.Item, problem: Problem) -> tuple[int, str]:
        """The weight and the class of harm that a test is marked with."""
        points, harmful = item.get_closest_marker("points"), item.get_closest_marker("harm")
        weight = points.args[0] if points else 1
        harm = str(harmful.args[0]) if harmful and harmful.args else ""
        wrong = ""
        if type(weight) is not int or weight < 1:
            wrong = f"points({weight}): expected a whole number above 0"
        elif harmful and harm not in HARM:
            wrong = f"harm({harm!r}): expected one of {', '.join(HARM)}"
        elif harmful and points:
            wrong = "harm and points: expected one of them"
        if wrong:
            self.faults[problem.id] = f"{item.name} is marked {wrong}"
            return 1, harm
        return weight, harm

    def _weigh(self, problem: Problem, functions: list[TestFunction]) -> None:
        """Let the weights of tests with classes of harm follow from these classes.

        The tests for each device are weighed among themselves; but CUDA tests of a CPU problem are
        weighed as its CPU tests are, because a run on a CPU alone can give all points.
        """
        unmarked = [one.name for one in functions if not one.harm]
        if len(unmarked) == len(functions) or problem.id in self.faults:
            return
        if unmarked:
            self.faults[problem.id] = f"{unmarked[0]} has no mark harm(…), but other tests have one"
            return
        for device in {one.device for one in functions}:
            among = "cpu" if problem.device == "cpu" else device
            own = [one for one in functions if one.device == device]
            sharing = [one.harm for one in functions if one.device == among]
            for function, weight in zip(
                own, weights_by_harm([one.harm for one in own], sharing), strict=True
            ):
                function.weight = weight

    def cannot_be_read(self, file: str, reason: str) -> None:
        """Record a test file that cannot be read.

        This is the grader's fault, and it affects only the file's own problem.
        """
        name = problem_of_file(file)
        for problem_id in [name] if name in self._problems else self._problems:
            self.faults[problem_id] = f"its hidden tests cannot be read: {reason}"

    def of_problem(self, problem: Problem, *, only_run: bool = False) -> list[Outcome]:
        """How a problem's tests ended; a single fault of the grader if they could not be run.

        Args:
            only_run: Leave out tests that were not reached.
        """
        functions = [one for (owner, _), one in self._functions.items() if owner == problem.id]
        self._weigh(problem, functions)
        found = [one.outcome() for one in functions if one.cases or not only_run]
        fault = self.faults.get(problem.id, "")
        if not fault and not any(outcome.device == problem.device for outcome in found):
            fault = f"no hidden test was found for its device, {problem.device}"
        if not fault:
            return found
        error = Status.GRADER_ERROR
        return [Outcome(id=SUITE, device=problem.device, status=error, what=fault)]
