"""Find the known mistake that explains a problem's failures, by testing our wrong solutions.

A test calls the student's code until one of the answers is wrong. A wrong solution explains that
failure if it gives the same answers to the same calls and fails with the same message. Real code
has several mistakes, so a mistake is reported for each test that it explains, if it passes all
tests that the student's code passed. Of several that explain a test, those that explain most tests
count; two together count for tests that fail in this way only with both.
An exception is evidence if its text is the same, too, as that of one raised by a library.
If two mistakes explain it, the report names both; if more do, it names none. Repeating a test with
a wrong solution is called a rehearsal. It runs in the trusted process, on our own solutions; it
neither runs nor trusts the student's code.
"""

import itertools
import os
import sys
import tempfile
import types
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from pathlib import Path
from typing import Any

from grader.base.errors import CourseFault, Raised, StudentFault
from grader.course.courses import Course, Problem
from grader.grading import free_memory, local_student
from grader.grading.same_answers import elements, has_numbers, same
from grader.grading.undo_settings import restored, silenced
from grader.sandbox.reply_checks import Probe
from grader.solutions import known_mistakes
from grader.solutions.known_mistakes import Mistake
from kit.student import keeping_generators

# If the inputs and answers of a test have more elements than this in total, they are not compared.
MAX_ELEMENTS = 5_000_000
# If more known mistakes than this explain the failures, they say too little to be named.
MOST_NAMED = 2
# How alike two failures are.
ALIKE, TELLING = 1, 2
MOST_PAIRS = 300  # tried for a problem; each takes some milliseconds

Package = types.SimpleNamespace  # passed to a probe as the student's package
Wrong = tuple[Mistake, Package]


@dataclass(frozen=True)
class Call:
    """One call from a test into the student's code, and its value or the name of its exception."""

    probe: Probe
    inputs: dict[str, Any]
    value: Any = None
    raised: str | None = None


@dataclass
class Case:
    """One run of one test."""

    test: Any  # the caller's key for the test
    seed: int  # the seed that the student's global generators were set to before each call
    repeat: Callable[[Any], None]  # runs the test again with another object in place of the student
    # The calls that the test made, and their outcomes.
    calls: list[Call] = field(default_factory=list)
    failure: Exception | None = None  # the exception that the test failed with; None if it passed
    function: str = ""  # the function that failed, where known
    seconds: float = 0.0  # how long the test took; quick tests are rehearsed first

    @property
    def can_be_repeated(self) -> bool:
        """Whether this process can execute the calls that the test made."""
        return bool(self.calls) and not any(
            _kind_of_call(call.probe, call.inputs) in _need_a_process for call in self.calls
        )

    @property
    def can_be_rehearsed(self) -> bool:
        """Whether the answers can also be compared; comparing very large answers takes too long."""
        return self.can_be_repeated and self._elements <= MAX_ELEMENTS

    @cached_property
    def _elements(self) -> int:
        return elements([[call.inputs, call.value] for call in self.calls])

    @property
    def tells(self) -> bool:
        """Whether the failure is informative: the last answer has numbers, or an exception a text.

        Another exception, None or a bool only shows that something is missing.
        """
        if not self.can_be_rehearsed:
            return False
        if self.calls[-1].raised is None:
            return has_numbers(self.calls[-1].value)
        return isinstance(self.failure, Raised) and bool(str(self.failure))


class _AnswersOtherwise(BaseException):
    """The wrong solution answers differently from the student: it does not explain the failure."""


class _NeedsAProcess(_AnswersOtherwise):
    """The probe needs a process of its own, which is not available in a rehearsal."""


# The calls known to need a process of their own; see `_kind_of_call`.
_need_a_process: set[tuple[Probe, str]] = set()


def _kind_of_call(probe: Probe, inputs: Mapping[str, Any]) -> tuple[Probe, str]:
    """A probe and its inputs but for numbers: a probe may fork only if one of its words says so."""
    words = {
        name: value if isinstance(value, str) else [v for v in value if isinstance(v, str)]
        for name, value in inputs.items()
        if isinstance(value, (str, list, tuple))
    }
    return probe, repr(words)


class Rehearsal:
    """Answers a test's calls with a wrong solution, as long as its answers equal the student's.

    Args:
        package: The wrong solution.
        case: The recorded calls to compare with; None to answer any call without comparing.
        seed: The seed that the global generators are set to before each call.
    """

    def __init__(self, package: Package, case: Case | None, seed: int) -> None:
        self._package, self._seed = package, seed
        self._left = list(case.calls) if case else None

    def run(self, probe: Probe, inputs: dict[str, Any]) -> Any:
        """Return the probe's answer for the wrong solution, or raise its exception.

        If the student's code answered differently, end the rehearsal.
        """
        asked = self._next(probe, inputs)
        try:
            value = local_student.answer(self._package, probe, inputs, self._seed)
        except _NeedsAProcess:
            _need_a_process.add(_kind_of_call(probe, inputs))
            raise
        except StudentFault as e:
            if asked and name_of(e) != asked.raised:
                raise _AnswersOtherwise from None
            raise
        if asked and (asked.raised or not same(value, asked.value)):
            raise _AnswersOtherwise
        return value

    def _next(self, probe: Probe, inputs: dict[str, Any]) -> Call | None:
        """The student's call at this position."""
        if self._left is None:
            return None
        if not self._left:
            raise _AnswersOtherwise
        asked = self._left.pop(0)
        if probe is not asked.probe or not same(inputs, asked.inputs):
            raise _AnswersOtherwise
        return asked


def name_of(fault: BaseException) -> str:
    """The name of the exception that a call into the student's code ended with."""
    return str(getattr(fault, "type_name", type(fault).__name__))


def explained(problem: Problem, course: Course, cases: list[Case]) -> dict[Any, Mistake]:
    """For each failed test, find the known mistake that explains it, or the two that do.

    The cases are all runs of the problem's tests, including those that passed.
    """
    cases = sorted(cases, key=lambda case: case.seconds)
    failed = [case for case in cases if case.failure is not None]
    failed.sort(key=lambda case: not case.tells)  # informative failures first
    if not failed or not failed[0].tells:
        return {}
    solutions = wrong_solutions(course, problem)
    if not solutions:
        return {}
    passed = [case for case in cases if case.failure is None and case.can_be_rehearsed]
    with _undisturbed():
        # The usual case, and the quickest: one mistake, which explains everything.
        whole = [mistake for mistake, package in solutions if _explains(package, failed, passed)]
        if whole:
            either = [_either(whole)] if len(whole) <= MOST_NAMED else []
            return {case.test: mistake for case in failed for mistake in either}
        return _by_test(problem, course.reference_of(problem), solutions, failed, passed)


def _by_test(
    problem: Problem, reference: str, solutions: list[Wrong], failed: list[Case], passed: list[Case]
) -> dict[Any, Mistake]:
    """The mistakes that explain each test: each explains whole tests, and fails no passed test.

    For tests that no mistake explains alone, try two together.
    """
    tests = {case.test: [c for c in failed if c.test is case.test] for case in failed}
    explains: dict[str, dict[Any, int]] = {}  # how alike, for each test that a mistake explains
    unlike: dict[str, set[Any]] = {}  # the tests that a mistake fails in another way
    by_name = {mistake.name: mistake for mistake, _ in solutions}
    for mistake, package in solutions:
        likeness = {test: _likeness(package, runs) for test, runs in tests.items()}
        if TELLING in likeness.values() and _passes_all(package, passed):
            explains[mistake.name] = {test: alike for test, alike in likeness.items() if alike}
            others = [test for test in tests if not likeness[test]]
            unlike[mistake.name] = {t for t in others if not _passes_all(package, tests[t])}
    # A test that no single mistake explains has two, so its failure contradicts neither.
    known = {test for named in explains.values() for test in named}
    ranks = {name: (len(explains[name]), -len(unlike[name] & known)) for name in explains}
    found = {
        test: _either([by_name[name] for name in named])
        for test in tests
        if (named := _named(test, explains, ranks))
    }
    rest = [case for test in tests if test not in known for case in tests[test]]
    if rest and rest[0].tells:
        pairs = _pairs(problem, reference, solutions, set(explains), rest, passed)
        if pairs and (both := _both(pairs)):
            found |= {case.test: both for case in rest}
    return found


def _named(
    test: Any, explains: dict[str, dict[Any, int]], ranks: dict[str, tuple[int, int]]
) -> list[str]:
    """The mistakes that explain a test, and of these the best ones; none if too many.

    The best ones explain most tests, and contradict the fewest that another mistake explains.
    Code has either of two rivals, whichever of them explains this test.
    """
    alike = [name for name, explained_ in explains.items() if test in explained_]
    best = max((ranks[name] for name in alike), default=None)
    named = [
        name
        for name in explains
        if (name in alike and ranks[name] == best)
        or any(ranks[one] == best and _are_rivals(explains[one], explains[name]) for one in alike)
    ]
    return named if len(named) <= MOST_NAMED else []


def _are_rivals(first: dict[Any, int], second: dict[Any, int]) -> bool:
    """Whether two mistakes explain a test by the same numbers, and each also another test."""
    shared = [test for test in first if first[test] == second.get(test) == TELLING]
    return bool(shared) and bool(first.keys() - second) and bool(second.keys() - first)


def _pairs(
    problem: Problem,
    reference: str,
    solutions: list[Wrong],
    begun: set[str],
    rest: list[Case],
    passed: list[Case],
) -> list[tuple[Mistake, Mistake]]:
    """The pairs of mistakes that explain these runs.

    Each of the two explains other tests alone, or changes an answer of the first run.
    """
    usual = _answers(_made(reference, problem.id, problem.module, "reference"), rest[0])
    changing = [
        mistake
        for mistake, package in solutions
        if mistake.name in begun or not same(_answers(package, rest[0]), usual)
    ]
    found = []
    for first, second in itertools.islice(itertools.combinations(changing, 2), MOST_PAIRS):
        with suppress(CourseFault, SyntaxError):  # they change the same lines
            source = known_mistakes.both(first, second, reference)
            package = _made(source, problem.id, problem.module, "two mistakes")
            if _explains(package, rest, passed):
                found.append((first, second))
    return found


def _answers(package: Package, case: Case) -> list[Any]:
    """What a solution answers to the calls of a run: each value, or the name of its exception."""
    found: list[Any] = []
    for call in case.calls:
        try:
            found.append(local_student.answer(package, call.probe, call.inputs, case.seed))
        except (StudentFault, _NeedsAProcess) as e:
            found.append(name_of(e))
    return found


def _both(pairs: list[tuple[Mistake, Mistake]]) -> Mistake | None:
    """Two mistakes that only together explain a failure, or one and either of two others."""
    shared = [mistake for mistake in pairs[0] if all(mistake in pair for pair in pairs)]
    if not shared or len(pairs) > MOST_NAMED:
        return None
    first = shared[0]
    second = _either([mistake for pair in pairs for mistake in pair if mistake is not first])
    hints = [mistake.hint for mistake in (first, second) if mistake.hint]
    return replace(
        first, says=f"{first.says} And: {second.says}", hint="; and: ".join(hints) or None
    )


def _either(agreeing: list[Mistake]) -> Mistake:
    """One mistake, or the texts of several that no test can tell apart.

    A text that only continues another one is left out.
    """
    begun = [mistake.says.rstrip(".") for mistake in agreeing]
    agreeing = [m for m in agreeing if sum(m.says.startswith(text) for text in begun) == 1]
    says = " Or: ".join(mistake.says for mistake in agreeing)
    hints = dict.fromkeys(mistake.hint for mistake in agreeing if mistake.hint)
    return replace(agreeing[0], says=says, hint="; or: ".join(hints) or None)


def _explains(package: Package, failed: list[Case], passed: list[Case]) -> bool:
    """Whether a wrong solution fails the failed tests in the same way and passes the others."""
    return _likeness(package, failed) == TELLING and _passes_all(package, passed)


def _likeness(package: Package, failed: list[Case]) -> int:
    """0 unless a solution fails these tests alike; TELLING if one of them is evidence for it."""
    found = 0
    for case in failed:
        if not (alike := _fails_alike(package, case)):
            return 0
        found = max(found, alike)
    return found


def _passes_all(package: Package, passed: list[Case]) -> bool:
    return all(_passes(package, case) for case in passed)


def _fails_alike(package: Package, case: Case) -> int:
    """ALIKE if a solution fails a test with the same message and, if comparable, equal answers.

    An exception may have another text. TELLING if it has the same and if the failure tells.
    """
    assert case.failure is not None
    if not case.can_be_repeated:
        return 0
    telling = TELLING if case.tells else ALIKE
    try:
        case.repeat(Rehearsal(package, case if case.can_be_rehearsed else None, case.seed))
    except _AnswersOtherwise:
        return 0
    except Exception as e:
        if type(e) is type(case.failure) and name_of(e) == name_of(case.failure):
            if str(e) == str(case.failure):
                return telling
            return ALIKE if isinstance(e, Raised) else 0
    return 0


def _passes(package: Package, case: Case) -> bool:
    """Whether a solution passes a test, whatever its answers are.

    True also for a test that needs a process of its own, because it cannot be rehearsed.
    """
    if not case.can_be_repeated:
        return True
    try:
        case.repeat(Rehearsal(package, None, case.seed))
    except _NeedsAProcess:
        return True
    except Exception:
        return False
    return True


def wrong_solutions(course: Course, problem: Problem) -> list[Wrong]:
    """The wrong solutions of a problem that CPU tests can detect, each as a package for probes.

    Without known mistakes, the problem needs no reference.
    """
    if not _known(course.hidden, problem.id):
        return []
    return _loaded(course.hidden, problem.id, problem.module, course.reference_of(problem))


# A course's files are read once; parsing one takes several milliseconds.
_known = cache(known_mistakes.load)


@cache
def _loaded(folder: Path, problem_id: str, module: str, reference: str) -> list[Wrong]:
    found = []
    for mistake in _known(folder, problem_id):
        if not mistake.is_tried_on("cpu", ("cpu",)):
            continue
        try:
            source = mistake.applied_to(reference)
            found.append((mistake, _made(source, problem_id, module, mistake.name)))
        except (CourseFault, SyntaxError):  # `grader validate` reports it
            continue
    free_memory.freeze()  # some probes collect garbage, which then takes 1 ms instead of 70 ms
    return found


def _made(source: str, problem_id: str, module: str, name: str) -> Package:
    """The package for probes with this module."""
    code = compile(source, f"<{problem_id}/{name}>", "exec")
    loaded = types.ModuleType(f"grader_wrong_{problem_id}_{name}")
    sys.modules[loaded.__name__] = loaded  # dataclasses look up their module there
    loaded.__package__ = ".".join(["assignment", *module.split(".")[:-1]])
    exec(code, loaded.__dict__)
    return _package(module, loaded)


def _package(module: str, loaded: types.ModuleType) -> Package:
    """A package for probes in which this is a module, perhaps of a package inside."""
    inner: Any = loaded
    for name in reversed(module.split(".")):
        inner = Package(**{name: inner})
    package: Package = inner
    return package


@contextmanager
def _undisturbed() -> Iterator[None]:
    """Restore generators, working folder and torch settings at the end of the block.

    Inside the block, os.fork, os.kill and os._exit raise an exception, because torch may have
    threads. What the wrong solutions print is discarded, too: stdout may be a report.
    """

    def no_process(*arguments: Any) -> Any:
        raise _NeedsAProcess

    folder = os.getcwd()
    of_processes = {name: getattr(os, name) for name in ("fork", "kill", "_exit")}
    for name in of_processes:
        setattr(os, name, no_process)
    try:
        with ExitStack() as stack:
            stack.enter_context(restored())
            stack.enter_context(keeping_generators())
            stack.enter_context(silenced())
            os.chdir(stack.enter_context(tempfile.TemporaryDirectory(prefix="grader-")))
            try:
                yield
            finally:
                os.chdir(folder)
    finally:
        for name, function in of_processes.items():
            setattr(os, name, function)
