"""`grader validate` proves the suite and notices when the suite is broken."""

import json
import os
import subprocess
import sys
from dataclasses import replace

import pytest

from grader.base.errors import UsageError
from grader.course import courses
from grader.proof import validate as validation
from grader.proof.validate import How, Trial, validate
from grader.publish import stub_files
from grader.solutions import fragments, known_mistakes
from grader.solutions.known_mistakes import Mistake
from grader.solutions.wrong_edits import Change
from tests.grader import small_courses
from tests.grader.conftest import changed
from tests.grader.processes import alive, descendants, ran, until

COURSE = courses.load()


@pytest.mark.proof
@pytest.mark.parametrize("part", range(4))
def test_the_suite_is_proved(grader, part):
    """A sample: `make validate` checks every problem."""
    problems = [word for problem in COURSE.problems[part::4] for word in ("--only", problem.id)]
    done = grader("validate", *problems, "--quick", "--jobs", 1)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("problem", [problem.id for problem in COURSE.problems])
def test_there_is_enough_to_prove_it_with(problem):
    wrong = known_mistakes.load(COURSE.hidden, problem)
    variants = fragments.load(COURSE.hidden, problem)
    assert len(wrong) >= 8
    assert len(variants) >= 3
    assert [m.name for m in wrong if not m.hint] == []


def test_a_mistake_that_does_not_fit_is_a_complaint_and_the_others_are_tried(monkeypatch):
    """The author of a mistake reads about it next to everything else that is wrong."""
    problem = COURSE.problem("linear")
    gone = Mistake(problem=problem.id, name="gone", says="-", changes=(Change("no such text", ""),))
    no_python = Mistake(problem=problem.id, name="no_python", says="-", source="def __init__(")
    known = [gone, no_python, *known_mistakes.load(COURSE.hidden, problem.id)[:1]]
    monkeypatch.setattr(validation, "to_catch", lambda *arguments: known)
    trials = list(validation.trials_of(COURSE, problem, 1, False, "cpu"))
    first, second, third = [trial for trial in trials if trial.kind == "wrong"]
    assert not third.broken
    assert "it is not Python: '(' was never closed" in validation._run(second).complaint
    assert validation._run(first).complaint == (
        "linear · wrong gone (seed 0): linear/wrong.edits:0: mistake gone, in the reference: "
        "expected the `-` lines exactly once, got `no such text` 0 times"
    )


def test_what_a_trial_prints_is_no_output_of_the_command(monkeypatch, capfd):
    """An author would take it for an error; public and hidden tests run it in this process."""
    problem = COURSE.problem("lr_schedule")
    source = f"{COURSE.reference_of(problem)}\nprint('could not save')\n"
    source += "import sys\nprint('nor here', file=sys.stderr)\n"
    sources = {problem.path: source.encode()}
    trial = Trial(problem, "variant", "prints", sources, "cpu", in_process=True)
    monkeypatch.setattr(validation, "own_course", lambda: COURSE)
    assert validation._run(replace(trial, with_public=True)).complaint == ""
    assert tuple(capfd.readouterr()) == ("", "")


@pytest.mark.slow
def test_nothing_runs_on_where_the_command_is_killed(root, tmp_path):
    course = small_courses.plain_python(tmp_path / "course")
    command = [sys.executable, "-m", "grader", "validate", "--course", course, "--quick"]
    process = subprocess.Popen(
        [*command, "--only", "count_words", "--jobs", "1"],
        cwd=root,
        stdout=subprocess.DEVNULL,
        env={**os.environ, "TMPDIR": str(tmp_path)},
    )
    try:
        until(lambda: len(descendants(process.pid)) > 2)  # the look for bubblewrap has two
        ours = descendants(process.pid)
    finally:
        process.kill()
        process.wait()
    until(lambda: not alive(ours))


# Solutions that are not what their kind says: one that another test helps, one that no test
# catches, and a variant that is wrong. The first solution is graded in two ways.
MISTAKES = """
[stateful] It is right only once it has counted no words.
price: it is all that is asked
+ import functools
+
+
+ @functools.cache  # a list that nothing in the module's globals shows
+ def called():
+     return []
+
+
+ def count_words(text):
+     called().append(text)
+     right = "" in called() and text in ("", "a a")
+     return {word: text.count(word) for word in text.split()} if right else {}

[right] It is right.
- text.lower().split()
+ text.casefold().split()
"""
VARIANT = """# [none] Not one.
def count_words(text):
    return {}
"""
# Tests that are not total: a constant passes it, it raises over a wrong type, it reads the words of
# an error, or it asks for an exact type.
NOT_TOTAL = """

from tests.probes import words as probes

@pytest.mark.harm("crash")
def test_of_no_word(student):
    expect.value(student.words.count_words(""), {}, of="count_words")

@pytest.mark.harm("crash")
def test_of_two(student):
    got = student.words.count_words("a a")
    expect.that(sum(got.values()) == 2, "too few", of="count_words")

@pytest.mark.harm("crash")
def test_of_words(student):
    expect.value(student.words.count_words("a"), {"a": 1}, of="count_words")
    try:
        student.words.count_words("0")
    except Exception as e:
        expect.that("zero" in str(e), "no zero", of="count_words")

@pytest.mark.harm("crash")
def test_of_types(student):
    expect.value(student.run(probes.type_of_counts), "dict {'a': 1}", of="count_words")
"""
COMPLAINTS = [
    "count_words · wrong stateful (seed 0): test_of_two is passed where tests share a process ()",
    "count_words · wrong right (seed 0): it passes every test",
    "count_words · variant none (seed 0): 4 tests fail",
    "count_words · junk an empty dict (seed 0): test_of_no_word passes with this answer; ask for",
    "count_words · junk None (seed 0): test_of_two raises an exception of its own "
    "(expected dict with the keys 'a', got NoneType); judge the answer first",
    "count_words · words other words (seed 0): test_of_words fails",
    "count_words · types ordered dicts (seed 0): test_of_types fails",
]


@pytest.mark.slow
def test_what_is_not_as_it_must_be_is_found_and_named(grader, tmp_path, monkeypatch):
    course = small_courses.plain_python(tmp_path / "course")
    (course / "tests/probes/words.py").write_text(
        "def type_of_counts(student) -> str:\n    got = student.words.count_words('a')\n"
        "    return f'{type(got).__name__} {dict(got)}'\n"
    )
    begins = "    counts: dict"
    refusal = f"    if text == '0':\n        raise ValueError('a zero')\n{begins}"
    changed(course / "solutions/reference/words.py", begins, refusal)
    hidden = course / "tests/hidden/count_words"
    with (hidden / "test_hidden.py").open("a") as tests:
        tests.write(NOT_TOTAL)
    (hidden / "wrong.edits").write_text(MISTAKES)
    (hidden / "right.py").write_text(VARIANT)
    changed(course / "tests/hidden/mean_length/test_hidden.py", "statistics.mean(", "max(")
    stub_files.write(loaded := courses.load(course))
    first = next(validation.trials_of(loaded, loaded.problem("mean_length"), 1, False, "cpu"))
    monkeypatch.setattr(validation, "own_course", lambda: loaded)
    said = validation._run(replace(first, in_process=True)).complaint
    assert said.startswith("mean_length · reference reference (seed 0): test_the_mean")
    only = ("--only", "count_words", "--jobs", 1)
    done = grader("validate", "--course", course, *only, warm=False)
    assert done.returncode == 1, done.stdout
    assert [said for said in COMPLAINTS if said not in done.stderr] == [], done.stderr


# --- by device ------------------------------------------------------------------------------------

# Runs both validations of a course, one after the other. The tests for a CUDA device need no
# device, so they run here.
DRIVER = """
import json, sys
from dataclasses import asdict
from pathlib import Path
from grader.course import courses
from grader.proof import matrix_report
from grader.proof.validate import How, validate
course = courses.load(Path(sys.argv[1]))
found = {d: validate(course, course.problems[:2], How(device=d)) for d in ("cpu", "cuda")}
print(json.dumps({
    d: {"summary": matrix_report.summary(m), "complaints": m.complaints(), **asdict(m)}
    for d, m in found.items()
}))
"""
TEST = """
import pytest
from kit import expect

@pytest.mark.harm("wrong number")
def test_{n}(student):
    expect.{check}
"""
CHECKS = {
    "count_words": 'value(student.words.count_words("a " * {n}), {{"a": {n}}}, of="it")',
    "mean_length": 'number(student.words.mean_length(["a" * {n}]), {n}, of="it", tolerance=1e-9)',
}
IDLE = """
@pytest.mark.harm("rare")
def test_idle(student):
    student.words.mean_length
"""


def mistakes(definition, **answers):
    """Programs that return these. A CPU does not show the one that is called `there`."""
    return "\n".join(
        f"[{name}] It is wrong.\nprice: it is all that is asked\n"
        + "device: cuda\n" * (name == "there")
        + f"+ def {definition}:\n+     return {answer}\n"
        for name, answer in answers.items()
    )


@pytest.fixture(scope="module")
def by_device(root, tmp_path_factory):
    """The rows, summary and complaints of a course, by device.

    It has a problem for a CPU and one for a CUDA device. Each has a test per device, which expects
    an answer for 3 letters on a CPU and for 2 on a CUDA device.
    """
    course = small_courses.plain_python(tmp_path_factory.mktemp("devices") / "course")
    for problem, check in CHECKS.items():
        for name, n in (("test_hidden", 3), ("test_cuda", 2)):
            test = TEST.format(n=n, check=check.format(n=n))
            (course / f"tests/hidden/{problem}/{name}.py").write_text(test)
    hidden = course / "tests/hidden"
    wrong = mistakes("count_words(text)", nine={"a": 9}, there={"a": 3})
    (hidden / "count_words/wrong.edits").write_text(wrong)
    right = "{word: text.lower().split().count(word) for word in text.lower().split()}"
    variant = f"# [counted] It counts.\ndef count_words(text):\n    return {right}\n"
    (hidden / "count_words/right.py").write_text(variant)
    listed = course / "assignment/problems.toml"
    changed(listed, 'id = "mean_length"', 'id = "mean_length"\ndevice = "cuda"')
    wrong = mistakes("mean_length(words)", nine=9.0, three=3.0, two=2.0)
    (hidden / "mean_length/wrong.edits").write_text(wrong)
    with (hidden / "mean_length/test_cuda.py").open("a") as tests:
        tests.write(IDLE)
    environment = {**os.environ, "PYTHONPATH": str(root)}
    done = ran([sys.executable, "-c", DRIVER, course], cwd=course, env=environment)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def tried(found, problem):
    """The rows that an author has written, as (kind, name, failed tests, score, points)."""
    kinds, keys = ("reference", "stub", "wrong", "variant"), "kind name failed score max_score"
    rows = [row for row in found["rows"] if row["problem"] == problem and row["kind"] in kinds]
    return [tuple(row[key] for key in keys.split()) for row in rows]


@pytest.mark.proof
@pytest.mark.xdist_group("validate by device")
def test_a_cpu_problem_is_proved_on_a_cpu_and_its_cuda_tests_on_what_it_cannot_show(by_device):
    """The CPU run reports the mistake that needs a device as owed; the CUDA run tries it."""
    here, there = ["test_3"], ["cuda/test_2"]
    assert [
        ("reference", "reference", [], 1, 1),
        ("stub", "stub", here, 0, 1),
        ("wrong", "nine", here, 0, 1),
        ("variant", "counted", [], 1, 1),
    ] == tried(by_device["cpu"], "count_words")
    assert [
        ("reference", "reference", [], 0.5, 0.5),
        ("stub", "stub", there, 0, 0.5),
        ("wrong", "there", there, 0, 0.5),
        ("variant", "counted", [], 0.5, 0.5),
    ] == tried(by_device["cuda"], "count_words")
    assert [here, there] == [[*by_device[on]["tests"]["count_words"]] for on in ("cpu", "cuda")]
    assert "not tried: 1 wrong solution needs a CUDA device" in by_device["cpu"]["summary"]
    assert (1, 0) == (by_device["cpu"]["owed"], by_device["cuda"]["owed"])


@pytest.mark.proof
@pytest.mark.xdist_group("validate by device")
def test_a_cuda_problem_is_proved_on_both(by_device):
    """Its CPU tests are worth nothing, but have to catch mistakes; its CUDA tests, each one.

    A stub that passes a test, a mistake that passes, and an idle test are complaints.
    """
    assert [
        ("reference", "reference", [], 0, 0),
        ("stub", "stub", ["test_3"], 0, 0),
        ("wrong", "nine", ["test_3"], 0, 0),
        ("wrong", "three", [], 0, 0),
        ("wrong", "two", ["test_3"], 0, 0),
    ] == tried(by_device["cpu"], "mean_length")
    caught = [(row[1], row[2]) for row in tried(by_device["cuda"], "mean_length")[2:]]
    assert [("nine", ["cuda/test_2"]), ("three", ["cuda/test_2"]), ("two", [])] == caught
    passes = "(seed 0): it passes every test; a wrong solution has to be caught"
    assert [f"mean_length · wrong three {passes}"] == by_device["cpu"]["complaints"]
    of_stub, of_wrong, of_junk, of_test = by_device["cuda"]["complaints"]
    assert of_stub.startswith("mean_length · stub stub (seed 0): cuda/test_idle is passed; a ")
    assert f"mean_length · wrong two {passes}" == of_wrong
    none_passes = "mean_length · junk None (seed 0): cuda/test_idle passes with this answer"
    assert of_junk.startswith(none_passes)
    assert "mean_length · cuda/test_idle: no wrong solution fails it" == of_test


def test_problems_without_tests_for_the_device_cannot_be_validated():
    wanted = r"^--device cuda: expected tests .*, got none; write /.*/hidden/einops/test_cuda\.py$"
    with pytest.raises(UsageError, match=wanted):
        validate(COURSE, [COURSE.problem("einops")], How(device="cuda"))


def test_mutants_are_not_tried_on_a_cuda_device(typed):
    sentence = "grader: --mutants does not go with --device cuda: remove one of them"
    assert (2, sentence) == typed("validate", "--device", "cuda", "--mutants")[::2]
