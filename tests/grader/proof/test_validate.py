"""`grader validate` proves the suite and notices when the suite is broken."""

import ast
import json
import os
import re
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
from grader.solutions.wrong_edits import Change, Edit, written
from tests.grader import small_courses
from tests.grader.conftest import changed, copied_course, starts_sooner
from tests.grader.processes import alive, descendants, processes, ran, until
from tests.grader.warm_python import python

COURSE = courses.load()
POINTS = COURSE.problem("tensor_memory").points


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
    command = [sys.executable, "-m", "grader", "validate", "--course", course, "--jobs", "1"]
    process = subprocess.Popen(
        command, cwd=root, stdout=subprocess.DEVNULL, env={**os.environ, "TMPDIR": str(tmp_path)}
    )
    try:
        until(lambda: len(descendants(process.pid)) > len(processes("PPid", process.pid)))
        ours = descendants(process.pid)
    finally:
        process.kill()
        process.wait()
    until(lambda: not alive(ours))


def keep_one(path):
    """Keep only the first right solution of a file."""
    _, second, *_ = re.finditer(r"^# \[", path.read_text(), re.MULTILINE)
    path.write_text(path.read_text()[: second.start()])


def mistakes_of(course, bytes_of_an_element, keys=None):
    """Replace the mistakes of tensor_memory: each assumes another size of an element, in bytes."""
    entries = []
    for name, size in bytes_of_an_element.items():
        source = f"def tensor_bytes(x): return {size} * x.numel()"
        more = {"price": "it is all that is asked", **(keys or {}).get(name, {})}
        entries.append(written(Edit(name=name, says="It is wrong.", keys=more, source=source)))
    (course / "tests/hidden/tensor_memory/wrong.edits").write_text("\n".join(entries))


def keep_tests(file, *names):
    """Delete all tests in a file but these."""
    lines = file.read_text().splitlines()
    for node in reversed(ast.parse(file.read_text()).body):
        if getattr(node, "name", "").startswith("test_") and node.name not in names:
            first = min(one.lineno for one in [node, *node.decorator_list])
            del lines[first - 1 : node.end_lineno]
    file.write_text("\n".join(lines))
    assert all(f"def {name}(" in file.read_text() for name in names)


def small_course(folder):
    """A copy of the course in which one problem is proved in seconds, with a few tests."""
    course = starts_sooner(copied_course(folder))
    keep_one(course / "tests/hidden/tensor_memory/right.py")
    mistakes_of(course, {"four": 4})
    kept = ("test_tensor_bytes_of_every_dtype", "test_storage_bytes_is_the_whole_storage")
    hidden = course / "tests/hidden/tensor_memory/test_hidden.py"
    keep_tests(hidden, *kept, "test_unique_bytes_counts_views_once")
    return course


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
    "count_words · junk an empty dict (seed 0): test_of_no_word passes with this answer; ask for",
    "count_words · junk None (seed 0): test_of_two raises an exception of its own "
    "(expected dict with the keys 'a', got NoneType); judge the answer first",
    "count_words · words other words (seed 0): test_of_words fails",
    "count_words · types ordered dicts (seed 0): test_of_types fails",
    "mean_length · reference reference (seed 0): test_the_mean",  # it expects a wrong answer
]


STATEFUL = """
[stateful] It is right only once storage_bytes has been called.
price: it is all that is asked
+ import functools
+
+
+ @functools.cache  # a list that nothing in the module's globals shows
+ def called():
+     return []
+
+
+ def tensor_bytes(x):
+     return -1
+
+
+ def storage_bytes(x):
+     called().append(1)
+     return x.untyped_storage().nbytes()
+
+
+ def unique_bytes(tensors):
+     seen = {x.untyped_storage()._cdata: x.untyped_storage().nbytes() for x in tensors}
+     return sum(seen.values()) if called() else -1
"""


# Of solutions that are not what their kind says: of one that no test catches, of a variant that is
# wrong, and of one that another test helps.
OF_SOLUTIONS = [
    r"wrong right \(seed 0\): it passes every test",
    r"variant none \(seed 0\): ",
    r"wrong stateful \(seed 0\): .*is passed where tests share a process \(\)",
]


@pytest.fixture(scope="module")
def complaints_about_tests(grader, tmp_path_factory):
    """What `validate --draft` complains about in a course with all these tests."""
    course = small_courses.plain_python(tmp_path_factory.mktemp("not_total") / "course")
    (course / "tests/probes/words.py").write_text(
        "def type_of_counts(student) -> str:\n    got = student.words.count_words('a')\n"
        "    return f'{type(got).__name__} {dict(got)}'\n"
    )
    begins = "    counts: dict"
    refusal = f"    if text == '0':\n        raise ValueError('a zero')\n{begins}"
    changed(course / "solutions/reference/words.py", begins, refusal)
    hidden = course / "tests/hidden/count_words/test_hidden.py"
    hidden.write_text(hidden.read_text() + NOT_TOTAL)
    changed(course / "tests/hidden/mean_length/test_hidden.py", "statistics.mean(", "max(")
    stub_files.write(courses.load(course))
    problems = ("--course", course, "--only", "count_words", "--only", "mean_length")
    done = grader("validate", *problems, "--draft", "--jobs", 1, warm=False)
    return done.returncode, done.stderr.splitlines()


@pytest.mark.slow
@pytest.mark.xdist_group("validate --draft")
@pytest.mark.parametrize("said", COMPLAINTS)
def test_a_test_that_is_not_total_is_found_and_named(complaints_about_tests, said):
    code, lines = complaints_about_tests
    assert code == 1
    assert any(said in line for line in lines), "\n".join(lines)


@pytest.fixture(scope="module")
def complaints_about_solutions(grader, tmp_path_factory):
    course = small_course(tmp_path_factory.mktemp("broken"))
    mistakes_of(course, {"right": "x.element_size()"})
    listed = course / "tests/hidden/tensor_memory/wrong.edits"
    # Some solutions are graded in two ways, the first among them.
    listed.write_text(STATEFUL + listed.read_text())
    variant = course / "tests/hidden/tensor_memory/right.py"
    variant.write_text("# [none] Not one.\ndef tensor_bytes(x):\n    return 4 * x.numel()\n")
    done = grader("validate", "--only", "tensor_memory", "--jobs", 1, cwd=course)
    return done.returncode, done.stderr.splitlines()


@pytest.mark.proof
@pytest.mark.xdist_group("validate")
@pytest.mark.parametrize("said", OF_SOLUTIONS)
def test_a_solution_that_is_not_what_it_should_be_is_found(complaints_about_solutions, said):
    code, lines = complaints_about_solutions
    assert code == 1
    assert [line for line in lines if re.search(f"tensor_memory · {said}", line)], lines


# --- by device ------------------------------------------------------------------------------------

# Runs both validations of a course, one after the other. The tests for a CUDA device need no
# device, so they run here.
DRIVER = """
import json
from grader.course import courses
from grader.proof import matrix_report
from grader.proof import validate
course = courses.load()
problems = [course.problem("tensor_memory")]
found = {
    d: validate.validate(course, problems, validate.How(device=d), jobs=2) for d in ("cpu", "cuda")
}
summaries = {d: {"summary": matrix_report.summary(m)} for d, m in found.items()}
trees = {d: json.loads(matrix_report.as_json(m)) for d, m in found.items()}
print(json.dumps({d: summaries[d] | trees[d] for d in found}))
"""
TESTS = """
import pytest
import torch
from kit import expect

@pytest.mark.harm("wrong number")
def test_three_{dtype}s(student):
    x = torch.zeros(3, dtype=torch.{dtype})
    expect.value(student.tensor_memory.tensor_bytes(x), {bytes}, of="tensor_bytes")
"""


@pytest.fixture
def course_of_two_devices(copy_of_the_course):
    """A copy in which tensor_memory has a test per device; one mistake needs a CUDA device."""
    hidden = copy_of_the_course / "tests/hidden/tensor_memory"
    (hidden / "test_hidden.py").write_text(TESTS.format(dtype="float", bytes=12))
    (hidden / "test_cuda.py").write_text(TESTS.format(dtype="double", bytes=24))
    keep_one(copy_of_the_course / "tests/hidden/tensor_memory/right.py")
    mistakes_of(copy_of_the_course, {"four": 4, "nine": 9}, keys={"four": {"device": "cuda"}})
    return starts_sooner(copy_of_the_course)


def on_a_cuda_device(course):
    """Make tensor_memory, the first problem, a problem whose points are earned on a CUDA device."""
    changed(course / "assignment/problems.toml", 'device = "cpu"', 'device = "cuda"')


def validated(course):
    """The summary and the matrix of a validation, by device."""
    done = ran([python(), "-c", DRIVER], cwd=course)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def tried(found):
    """The rows that an author has written, as (kind, name, failed tests, score, points)."""
    kinds, keys = ("reference", "stub", "wrong", "variant"), "kind name failed score max_score"
    rows = [row for row in found["rows"] if row["kind"] in kinds]
    return [tuple(row[key] for key in keys.split()) for row in rows]


@pytest.mark.proof
def test_a_cpu_problem_is_proved_on_a_cpu_and_its_cuda_tests_on_what_it_cannot_show(
    course_of_two_devices,
):
    """The CPU run reports the mistake that needs a device as owed; the CUDA run tries it."""
    got = validated(course_of_two_devices)
    here, there = ["test_three_floats"], ["cuda/test_three_doubles"]
    assert [
        ("reference", "reference", [], POINTS, POINTS),
        ("stub", "stub", here, 0.0, POINTS),
        ("wrong", "nine", here, 0.0, POINTS),
        ("variant", "itemsize_and_loop", [], POINTS, POINTS),
    ] == tried(got["cpu"])
    assert [
        ("reference", "reference", [], POINTS / 2, POINTS / 2),
        ("stub", "stub", there, 0.0, POINTS / 2),
        ("wrong", "four", there, 0.0, POINTS / 2),
        ("variant", "itemsize_and_loop", [], POINTS / 2, POINTS / 2),
    ] == tried(got["cuda"])
    assert ([], []) == (got["cpu"]["complaints"], got["cuda"]["complaints"])
    assert [here, there] == [[*got[on]["tests"]["tensor_memory"]] for on in ("cpu", "cuda")]
    assert "not tried: 1 wrong solution needs a CUDA device" in got["cpu"]["summary"].split("\n")
    assert 0 == got["cuda"]["owed"]


@pytest.mark.proof
def test_a_cuda_problem_is_proved_on_both(course_of_two_devices):
    """Its CPU tests are worth nothing, but have to catch mistakes; its CUDA tests, each one."""
    on_a_cuda_device(course_of_two_devices)
    got = validated(course_of_two_devices)
    here, there = ["test_three_floats"], ["cuda/test_three_doubles"]
    of_cpu = [("stub", "stub", here, 0.0, 0.0), ("wrong", "nine", here, 0.0, 0.0)]
    of_cuda = [("wrong", name, there, 0.0, POINTS) for name in ("four", "nine")]
    assert (of_cpu, of_cuda) == (tried(got["cpu"])[1:3], tried(got["cuda"])[2:4])
    assert ([], []) == (got["cpu"]["complaints"], got["cuda"]["complaints"])


@pytest.mark.proof
def test_what_is_not_as_it_must_be_is_told_by_device(course_of_two_devices):
    """A stub that passes a test, a mistake that passes, an idle test, even if worth nothing."""
    on_a_cuda_device(course_of_two_devices)
    mistakes_of(course_of_two_devices, {"eight": 8, "four": 4, "nine": 9})
    cuda = course_of_two_devices / "tests/hidden/tensor_memory/test_cuda.py"
    cuda.write_text(
        f'{cuda.read_text()}\n@pytest.mark.harm("rare")\n'
        "def test_idle(student):\n    student.tensor_memory.storage_elements\n"
    )
    got = validated(course_of_two_devices)
    passes = "(seed 0): it passes every test; a wrong solution has to be caught"
    assert [f"tensor_memory · wrong four {passes}"] == got["cpu"]["complaints"]
    of_stub, of_wrong, *of_junk, of_test = got["cuda"]["complaints"]
    assert of_stub.startswith("tensor_memory · stub stub (seed 0): cuda/test_idle is passed; a ")
    assert f"tensor_memory · wrong eight {passes}" == of_wrong
    none_passes = "tensor_memory · junk None (seed 0): cuda/test_idle passes with this answer"
    assert [True] == [said.startswith(none_passes) for said in of_junk]
    assert "tensor_memory · cuda/test_idle: no wrong solution fails it" == of_test


def test_problems_without_tests_for_the_device_cannot_be_validated(course_of_two_devices):
    course = courses.load(course_of_two_devices)
    wanted = r"^--device cuda: expected tests .*, got none; write /.*/hidden/einops/test_cuda\.py$"
    with pytest.raises(UsageError, match=wanted):
        validate(course, [course.problem("einops")], How(device="cuda"))


def test_mutants_are_not_tried_on_a_cuda_device(grader):
    done = grader("validate", "--device", "cuda", "--mutants")
    sentence = "grader: --mutants does not go with --device cuda: remove one of them\n"
    assert (2, sentence) == (done.returncode, done.stderr)
