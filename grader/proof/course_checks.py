"""What `grader validate` checks of a course besides its hidden tests: names, public tests, bundles.

Each function yields sentences, one for each thing that is wrong; none raises an exception for a
mistake of the course's author.
"""

import ast
import builtins
import contextlib
import difflib
import importlib.util
import json
import os
import pkgutil
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ET
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import kit
from grader.base.errors import CourseFault, GraderFault, ReleaseRefused, did_you_mean
from grader.course import courses, problems_toml
from grader.course.courses import Course, Problem, sources_in
from grader.proof.result_matrix import OF_GRADESCOPE, SERIOUS, tests_in
from grader.proof.trial_kinds import DECLINABLE
from grader.publish import gradescope_bundle, stub_files, student_bundle
from grader.results.points import HARM, weights_by_harm
from grader.solutions.fragments import bound

NOT_ATTEMPTED = "not attempted yet"
LEAST_HARM = 0.6  # the share of a problem's points that serious tests must carry
OF_A_PROBLEM = (*courses.HIDDEN_TESTS.values(), "wrong.edits", "right.py")
OF_PYTHON = ("math", "statistics", "itertools", "functools", "collections", "bisect", "heapq")
ENDS_SECONDS = 600.0  # a program of the course that takes longer hangs


def wrong_names(course: Course) -> Iterator[str]:
    """What problems.toml names and does not exist, and what exists and is not named there."""
    for problem in course.problems:
        yield from _wrong_functions(course, problem)
        yield from _missing_tests(course, problem)
        yield from _wrong_forbidden(course, problem)
        for key in problem.declined:
            if key.split(" ", 1)[0] not in DECLINABLE:
                yield (
                    f"{_at(course, problem)}: declined: expected one of {', '.join(DECLINABLE)}, "
                    f"and the name of a trial; got {key!r}"
                )
    yield from _of_no_problem(course)
    yield from _not_python(course)
    try:
        for path in stub_files.drifted(course):
            yield f"{path} differs from its reference: run `grader stubs`"
    except (CourseFault, GraderFault) as e:
        yield str(e)


def light_harm(course: Course, chosen: Iterable[Problem]) -> Iterator[str]:
    """Problems whose points depend too little on what hurts most.

    A problem whose tests name no harm is left out.
    """
    for problem in chosen:
        classes = [t.harm for t in tests_in(course.hidden_tests(problem)[problem.device]).values()]
        if "harm" in problem.declined or not set(classes) <= HARM.keys():
            continue
        weights = weights_by_harm(classes)
        share = sum(w for w, c in zip(weights, classes, strict=True) if c in SERIOUS)
        if share < LEAST_HARM * sum(weights):
            yield (
                f"{problem.id}: tests marked harm({' or '.join(map(repr, SERIOUS))}) have "
                f"{100 * share / sum(weights):.0f} % of its points, expected {100 * LEAST_HARM:g}"
            )


def public_tests(course: Course, chosen: Iterable[Problem]) -> Iterator[str]:
    """Public tests that fail on the reference, or that say of a stub more than "not attempted".

    They run in a folder with what a student gets, except the built handout.
    """
    names = [f"test_{problem.id}.py" for problem in chosen]
    try:
        files = student_bundle.student(course, None)
    except ReleaseRefused as e:
        yield f"the public tests did not run, because of `grader release student`: {e}"
        return
    with tempfile.TemporaryDirectory(prefix="grader-") as made:
        folder = Path(made)
        _write(folder, files)
        tests = [f"tests/public/{name}" for name in names if f"tests/public/{name}" in files]
        if not tests:
            return
        for test, said in _ended(folder, tests):
            if said is None:
                yield f"public {test} passes with stubs, so it tells a student nothing"
            elif not said.startswith((NOT_ATTEMPTED, "skipped")):
                yield f"public {test} with stubs: {said}; expected {NOT_ATTEMPTED!r}"
        _write(folder, sources_in(course.reference))
        for test, said in _ended(folder, tests):
            if said is not None and not said.startswith("skipped"):
                yield f"public {test} with the reference: {said}"


def gradescope(course: Course) -> Iterator[str]:
    """What is wrong with the grade of the reference by the zip for Gradescope."""
    with tempfile.TemporaryDirectory(prefix="grader-") as made:
        home, source = Path(made), Path(made) / "source"
        try:
            _write(source, gradescope_bundle.bundle(course))
        except (CourseFault, GraderFault) as e:
            yield f"release gradescope: {e}"
            return
        _write(home / "submission", sources_in(course.reference))
        (home / "results").mkdir()
        command = ["-m", "grader", "autograde", str(home), "--course", str(source / "course")]
        done = _python(command, source)
        result = json.loads((home / "results" / "results.json").read_bytes() or b"{}")
        points = sum(problem.points for problem in course.problems if problem.device == "cpu")
        if done.returncode or result.get("score") != points:
            yield (
                f"{OF_GRADESCOPE}{result.get('score')} of "
                f"{points} points: {done.stderr.strip() or result.get('output', '')[:1000]}"
            )


def _at(course: Course, problem: Problem) -> str:
    number = course.problems.index(problem)
    line = problems_toml.line_of(courses.text_of(course.list_of_problems), number, "id")
    return f"{course.list_of_problems}:{line}: problem {problem.id}"


def _wrong_functions(course: Course, problem: Problem) -> Iterator[str]:
    """Functions of a problem that its reference does not define."""
    path = course.reference / problem.path.removeprefix("assignment/")
    try:
        tree = courses.tree_of(path)
    except CourseFault as e:
        yield f"{_at(course, problem)}: expected its reference solution: {e}"
        return
    own = [node for node in tree.body if not isinstance(node, (ast.Import, ast.ImportFrom))]
    defined = [name for node in own for name in bound(node)]
    for name in problem.functions:
        if name not in defined:
            yield (
                f"{_at(course, problem)}: functions: expected names that {path} defines "
                f"({', '.join(defined) or 'none'}); got {name!r}{did_you_mean(name, defined)}"
            )


def _not_python(course: Course) -> Iterator[str]:
    """Tests and probes that cannot be parsed."""
    for folder in ("hidden", "probes"):
        for path in sorted((course.tests / folder).rglob("*.py")):
            try:
                courses.tree_of(path)
            except CourseFault as e:
                yield str(e)


def _missing_tests(course: Course, problem: Problem) -> Iterator[str]:
    """The files of tests that a problem must have, and does not."""
    if problem.device not in course.hidden_tests(problem):
        path = course.hidden / problem.id / courses.HIDDEN_TESTS[problem.device]
        yield f"{_at(course, problem)}: expected its hidden tests in {path}; there is no such file"
    public = course.tests / "public" / f"test_{problem.id}.py"
    if not public.is_file() and "public" not in problem.declined:
        yield (
            f"{_at(course, problem)}: expected its public tests in {public}; there is no such "
            'file (declined = {"public" = "the reason"} does without)'
        )


def _wrong_forbidden(course: Course, problem: Problem) -> Iterator[str]:
    """Forbidden names that do not exist, so that nothing would be forbidden."""
    names = [*problem.forbidden, *(name for of in problem.forbidden_in.values() for name in of)]
    for name in dict.fromkeys(names):
        meant = _meant(name, course)
        if meant or not _exists(name):
            yield (
                f"{_at(course, problem)}: forbidden: expected the name of a function, class, "
                f"module or operator; there is no {name}{meant and f'; did you mean {meant}?'}"
            )


def _meant(name: str, course: Course) -> str:
    """The full name of a function that is named without its module, or by an alias such as np."""
    first, _, rest = name.partition(".")
    if hasattr(builtins, first) or _is_found(first):
        return ""
    packages = [kit.name_of(package) for package in course.packages]
    homes = [home for home in (*packages, *OF_PYTHON) if _is_found(home)]
    names = [f"{home}.{inner}" for home in homes for inner in (name, rest) if inner]
    near = [] if rest else difflib.get_close_matches(name, dir(builtins), 1, cutoff=0.8)
    return next((full for full in names if _exists(full)), "".join(near))


def _is_found(module: str) -> bool:
    """Whether a module can be imported here."""
    with contextlib.suppress(ImportError, ValueError):
        return module in sys.modules or importlib.util.find_spec(module) is not None
    return False


def _exists(name: str) -> bool:
    """Whether a dotted name can be found, or belongs to a package that is not installed."""
    first, _, rest = name.partition(".")
    if not _is_found(first):
        return True  # a submission cannot import it either
    try:
        pkgutil.resolve_name(name)
    except Exception:  # a library may raise anything
        # Only some versions of torch have a function for an operator.
        torch: Any = sys.modules.get("torch")
        return first == "torch" and "." not in rest and hasattr(torch.ops.aten, rest)
    return True


def _of_no_problem(course: Course) -> Iterator[str]:
    """Files that nothing reads: of a problem that problems.toml does not list, or misnamed."""
    ids = [problem.id for problem in course.problems]
    found = [
        (path, path.stem.removeprefix("test_"))
        for path in sorted((course.tests / "public").glob("test_*.py"))
    ]
    expected = ", ".join(OF_A_PROBLEM)
    for path in sorted([*course.hidden.rglob("test_*.py"), *course.hidden.rglob("*.edits")]):
        if path.name not in OF_A_PROBLEM:
            yield f"{path}: expected {expected} in a folder named like its problem"
    of_problems = {path.parent for path in course.hidden.glob("*/*") if path.name in OF_A_PROBLEM}
    found += [(path, path.name) for path in sorted(of_problems)]
    for path, problem in found:
        if problem not in ids:
            meant = did_you_mean(problem, ids)
            yield f"{path}: problems.toml lists no problem {problem!r}{meant}"


def _write(folder: Path, files: Mapping[str, bytes]) -> None:
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


def _python(arguments: list[str], folder: Path) -> "subprocess.CompletedProcess[str]":
    """Run Python in a folder, and import from there first; end it if it takes too long.

    It leaves no bytecode there: a stub and its reference of one size, written within one second,
    would have the same.
    """
    environment = {**os.environ, "PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": "1"}
    try:
        return subprocess.run(
            [sys.executable, *arguments],
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=ENDS_SECONDS,
        )
    except subprocess.TimeoutExpired:
        return subprocess.CompletedProcess([], 1, "", f"ended after {ENDS_SECONDS:g} s")


def _ended(folder: Path, tests: list[str]) -> Iterator[tuple[str, str | None]]:
    """How each test ended: its id, and what it said; None if it passed."""
    report = folder / "report.xml"
    report.unlink(missing_ok=True)
    options = ["-m", "pytest", "-q", "-p", "no:cacheprovider", f"--junit-xml={report}"]
    done = _python([*options, *tests], folder)
    if done.returncode not in (0, 1) or not report.is_file():
        lines = (done.stdout + done.stderr).strip().splitlines()
        errors = [line for line in lines if line.startswith("E  ")] or lines
        last = " ".join(errors[-1].removeprefix("E").split()) if errors else "they print nothing"
        yield "tests", f"they do not run: {last}"
        return
    for case in ET.parse(report).iter("testcase"):
        said: str | None = None
        for kind in ("failure", "error", "skipped"):
            if (element := case.find(kind)) is not None:
                text = (element.text or element.get("message") or kind).strip().splitlines()
                said = (text or [kind])[0]
                said = f"skipped: {said}" if kind == "skipped" else said
        yield f"{case.get('classname', '').rpartition('.')[2]}::{case.get('name')}", said
