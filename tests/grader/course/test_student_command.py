"""`python -m assignment`: a progress report with the next step, and a zip for the grader."""

import itertools
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tomllib
import zipfile
from contextlib import suppress

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from grader.base.errors import SubmissionRefused
from grader.course import courses
from grader.submission import submissions
from kit import expect, student_command
from kit.handing_in import Accepted
from kit.student_command import check as checking
from kit.student_command import mismatch_pictures, previous_check, progress_markdown, submit
from kit.student_command.public_outcomes import Failure, ProblemProgress, RunOutcome, hints
from tests.grader.conftest import ROOT, changed
from tests.grader.processes import ran, until
from tests.grader.sampling import every
from tests.grader.warm_python import python

pytestmark = pytest.mark.slow

COURSE = courses.load()


@pytest.fixture
def work(tmp_path):
    """A student's folder, with the stubs."""
    folder = tmp_path / "work"
    skipped = shutil.ignore_patterns("hidden", "grader", "flight", "handout", "__pycache__")
    for name in ("assignment", "tests"):
        shutil.copytree(ROOT / name, folder / name, ignore=skipped)
    (folder / "kit").symlink_to(ROOT / "kit")  # with its bytecode; no test changes it
    shutil.copy(ROOT / "grader/publish/bundle/student/pyproject.toml", folder)
    return folder


def run(folder, *words, **options):
    return ran([python(), "-m", *words], cwd=folder, **options)


@pytest.fixture
def assignment(monkeypatch, capfd):
    """Run the command in this process. The public tests have one of their own, as always."""
    monkeypatch.setattr(sys, "executable", python())
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")  # which takes a tenth of a run

    def run(folder, *arguments):
        monkeypatch.chdir(folder)
        code = student_command.main(folder, [*arguments])
        return subprocess.CompletedProcess(arguments, code, *capfd.readouterr())

    return run


FORWARD = "return x @ self.weight.T"


@pytest.fixture
def check(assignment):
    return lambda folder, *arguments: assignment(folder, "check", *arguments)


def found(pattern, text):
    """Search for a pattern in which ^ and $ are those of a line."""
    return re.search(pattern, text, re.MULTILINE)


def started(folder, *options, out=subprocess.PIPE):
    command = [python(), "-m", "assignment", "check", "linear", *options]
    return subprocess.Popen(command, cwd=folder, stdout=out, stderr=subprocess.STDOUT, text=True)


def solve(folder, *modules):
    """Replace some modules with the reference."""
    for module in modules:
        shutil.copy(ROOT / f"grader/solutions/reference/{module}.py", folder / "assignment")


def solved(folder, module, old="", new="", *, begins="", ends=""):
    """Solve a module but for one text, between other lines; return its path."""
    solve(folder, module)
    path = folder / f"assignment/{module}.py"
    path.write_text(f"{begins}{path.read_text()}{ends}")
    return changed(path, old, new) if old else path


def linear(folder, forward):
    """Solve linear.py, but for the line of Linear.forward; return its path."""
    return solved(folder, "linear", FORWARD, forward)


def rows(done):
    """The problems of the rows that a check shows."""
    return [line.split()[0] for line in done.stdout.splitlines() if " points " in line]


# --- check


def test_progress_has_a_row_a_problem_and_says_what_is_next(work, check):
    """Below the rows is the first thing to do, with its file, line, section and command."""
    path = solved(work, "tensor_memory")
    head, start, tail = path.read_text().partition("def contiguous_strides")
    todo = 'raise NotImplementedError("storage_views: see handout §1.2")\n    # BEGIN SOLUTION'
    path.write_text(head + start + tail.replace("# BEGIN SOLUTION", todo, 1))
    done = check(work, "tensor_memory", "storage_views", "linear")
    assert done.returncode == 1
    row = r"^(\w+) +\d+ points  \S+ +\d+/\d+ +(\w[\w ]*)$"
    ended = {"tensor_memory": "done", "storage_views": "to be finished", "linear": "not attempted"}
    assert dict(re.findall(row, done.stdout, re.MULTILINE)) == ended
    todo = r"next\n  write assignment/tensor_memory\.py:\d+ in contiguous_strides\n"
    assert re.search(todo, done.stdout)
    assert "read handout §1.2, then run `python -m assignment check storage_views`" in done.stdout
    assert "first failure" not in done.stdout


def test_the_first_screen_offers_a_flight_and_the_last_one_what_is_left():
    """The course's own commands come after the next step, and at the end with the GPU's chapter."""
    rows = [ProblemProgress({"id": "one", "module": "one", "section": "1.1"}, 1, ["not attempted"])]
    rows += [ProblemProgress({"id": "gpu", "section": "13.1", "device": "cuda"}, 1, ["passed"])]
    others = {"fly": "train a small model (of given parts)"}
    begun = Failure(rows[0].problem, False, "", "", "")
    first = RunOutcome(rows[:1], [begun], others=others).next_step
    assert first.endswith("\nor begin with `python -m assignment fly`: " + others["fly"])
    assert "fly" not in RunOutcome(rows, [begun], others=others).next_step
    last = RunOutcome(rows[1:], [], others=others).next_step
    assert re.search("assignment submit.* a small model\n.*GPU.s problems again", last, re.DOTALL)


def test_each_call_gives_one_more_hint_and_never_the_solution(work, check):
    """Hints are counted per definition, from the docstring to the solved example."""
    for options, numbers in (["--hint"], ["1"]), ([], []), (["--hint"], ["1", "2"]):
        shown = check(work, "lr_schedule", *options).stdout
        assert re.findall(r"^hint (\d) of 5$", shown, re.MULTILINE) == numbers
    with (work / "assignment" / "optimizers.py").open("a", encoding="utf-8") as module:
        module.write("\n# a try\n")
    assert "hint 3 of 5" in check(work, "lr_schedule", "--hint").stdout
    entry = {"id": "lr_schedule"}
    about, number = previous_check.read(work).known["lr_schedule"]["hint"]
    assert (about.split(":")[0], number) == ("lr_cosine_schedule", 3)
    assert previous_check.read(work).next_hint(entry, f"{about} of another mistake") == 1


@pytest.mark.parametrize("problem", COURSE.problems, ids=lambda problem: problem.id)
def test_every_definition_has_hints(problem):
    entry = {"id": problem.id, "module": problem.module, "section": problem.section}
    for name in problem.functions:
        failure = Failure({**entry, "functions": [name]}, False, "", "", "")
        found, shown = hints(ROOT, failure)
        assert found == name
        assert shown[0].startswith(f"where: {problem.path}:")
        assert "Example:" in shown[-2]
        assert shown[-1].startswith(f"a solved example of this kind: {problem.path}:")
        assert "NotImplementedError" not in "".join(shown)


RIGHT = "return x.numel() * x.element_size()"


@pytest.mark.parametrize(
    ("body", "tells"),
    [
        (f"print(x.shape); {RIGHT}", True),
        pytest.param(f"{RIGHT} * (1 + (x.numel() > 10**9))", False, marks=pytest.mark.proof),
        pytest.param(f"{RIGHT} if x.numel() < 10**9 else exit()", False, marks=pytest.mark.proof),
    ],
)
def test_a_problem_that_turns_green_tells_its_sentence_once(work, body, tells, check):
    """Another number than the sentence's, or a call that ends the program: nothing."""
    shutil.copytree(ROOT / "flight", work / "flight")
    solved(work, "tensor_memory", RIGHT, body)
    sentence = "\n  Wren's weights take 5.09 GB in float32: they fit.\n"
    for is_told in (tells, False)[: 1 + tells]:
        done = check(work, "tensor_memory")
        assert (done.returncode, done.stderr) == (0, ""), done.stdout
        assert (sentence in done.stdout) is is_told
        assert "\ntorch.Size" not in done.stdout  # printed while the sentence was made


def test_a_wrong_answer_is_told_in_a_few_lines_by_pytest(work):
    solved(work, "tensor_memory", RIGHT, f"{RIGHT} + 1")
    chosen = ["-W", "error", "-q", "-k", "tensor_bytes", "tests/public/test_tensor_memory.py"]
    command = [python(), "-P", "-m", "pytest", "-p", "no:cacheprovider", *chosen]
    done = ran(command, cwd=work)
    assert (
        "tensor_memory · tensor_bytes: wrong value\n"
        "  expected  128\n"
        "  got       129\n"
        "  inputs    x float32[4, 8]\n"
        "  see       handout §1.1\n"
    ) in done.stdout


def test_an_answer_that_a_test_cannot_use_is_told_with_the_line_of_the_test(work, check):
    """The function that answered is named, also where the test stumbles over the answer later."""
    wrong = {
        "linear_backward": "(x, weight, upstream): return x.sum()",
        "mlp_backward": "(*args): return 2.0",
        "numerical_gradient": "(*args, **options): return None",
    }
    solved(work, "autograd", ends="\n".join(f"def {name}{rest}" for name, rest in wrong.items()))
    done = check(work, "autograd", "--all")
    stopped = r"the test cannot go on: \w+Error: .+"
    at = r"\n  at        tests/public/test_autograd\.py:\d+\n {12}\S"
    for name in wrong:
        assert found(rf"^autograd · {name}: {stopped}{at}", done.stdout), name
    call = r"TypeError: linear_backward\(\) got an unexpected keyword argument"
    assert found(rf"^autograd · linear_backward: the test cannot go on: {call}.*{at}", done.stdout)
    assert "autograd: raised" not in done.stdout
    assert found(r"^  fix assignment/autograd\.py:\d+ in linear_backward$", done.stdout)


def test_a_syntax_error_is_told_with_its_line(work, check):
    """Once for its module, with carets and the number of tests; other problems still run.

    What is not Python, or missing, is told before anything runs.
    """
    (work / "assignment/optimizers.py").write_text("if 1:\n    x = 2 +\n")
    (work / "assignment/data.py").unlink()
    solved(work, "linear", begins="from assignment.helpers import x\n")
    (work / "assignment/helpers.py").write_text("x = )\n")  # found when the module is imported
    done = check(work, "tensor_memory", "linear", "adamw", "lr_schedule", "get_batch", "--all")
    assert rows(done) == ["adamw", "lr_schedule", "get_batch", "tensor_memory", "linear"]
    assert "get_batch: assignment/data.py is missing; put it back" in done.stdout
    assert done.stdout.count("\nadamw, lr_schedule: raised SyntaxError: invalid syntax\n") == 1
    shown = "  at        assignment/optimizers.py:2\n            x = 2 +\n                   ^\n"
    assert shown in done.stdout
    shown = "  at        assignment/helpers.py:1\n            x = )\n                ^\n"
    assert f"linear: raised SyntaxError: unmatched ')'\n{shown}" in done.stdout
    assert found(r"^tensor_memory .* not attempted$", done.stdout)
    failing = re.findall(r"^(adamw|lr_schedule) .*  0/(\d+) +failing$", done.stdout, re.MULTILINE)
    passed = found(r", 0 of (\d+) public tests pass$", done.stdout)
    solve(work, "optimizers")
    right = check(work, "adamw", "lr_schedule").stdout
    assert failing == re.findall(r"^(\w+) .*  \d+/(\d+) +done$", right, re.MULTILINE)
    assert int(passed[1]) > sum(int(count) for _, count in failing)


@pytest.mark.parametrize(
    "command", every(2, ["assignment check checkpoint", "pytest -x -k checkpoint"])
)
def test_what_torch_advises_against_the_handout_is_not_shown(work, command):
    """torch.load explains how to load a file as a program, with codes for bold text."""
    kept = '"iteration": int(', '"iteration": __import__("fractions").Fraction('
    solved(work, "checkpointing", *kept)
    done = run(work, *command.split())
    said = "UnpicklingError: torch.load refuses the file: it contains fractions.Fraction, which is"
    assert said in " ".join(done.stdout.split()), done.stdout
    assert not re.search(r"\x1b|x1b|weights_only.*False|trust", done.stdout)


def test_what_the_code_prints_and_may_leave_to_the_library_is_shown(work, check):
    """Printed text changes neither table nor exit code; a call behind a condition is only noted."""
    (work.parent / "conftest.py").write_text("1 / 0")  # no folder above takes part in a check,
    (work / "pyproject.toml").unlink()  # also where pytest finds no settings
    condition = "if x is None:\n            return nn.functional.linear(x)"
    said = 'print("x is", tuple(x.shape), "\\x1b[2J")'
    linear(work, f"{said}\n        {condition}\n        {FORWARD}")
    done = check(work, "linear", "--markdown", "page.md")
    assert done.returncode == 0
    assert "\n  | x is (2,) \\x1b[2J\n" in done.stdout
    assert found(r"^linear +4 points .* done$", done.stdout)
    assert "1 of 1 problems done" in done.stdout
    assert "`python -m assignment` shows what is left" in done.stdout
    use = r"linear: assignment/linear\.py:\d+ uses torch\.nn\.functional\.linear, .*"
    note = found(rf"^note: ({use})$", done.stdout)
    assert note[1].endswith("a test in which that line runs would earn nothing")
    page = (work / "page.md").read_text()
    assert page.startswith("# Public tests: 1 of 1 problems done\n")
    assert f"## Notes\n\n```text\n{note[1]}\n```" in page
    assert "First failure" not in page


def test_a_missing_package_and_an_old_python_are_one_sentence(work):
    """The first line of a check does not wait for torch or pytest: its module imports neither."""
    program = "from pathlib import Path; from kit import student_command; "
    program += "from kit.student_command import check; "
    program += "raise SystemExit(student_command.main(Path.cwd(), ['check']))"
    done = ran([sys.executable, "-S", "-c", program], cwd=work)  # -S: no installed packages
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("torch, einops, numpy, jaxtyping, pytest not installed in ")
    assert "activate the environment" in done.stderr
    program = "import sys, runpy; sys.version_info = (3, 10, 1); sys.modules['tomllib'] = None; "
    program += "runpy.run_module('assignment', run_name='__main__')"
    done = ran([sys.executable, "-c", program], cwd=work)
    assert done.stderr.startswith("Python 3.11 or later is needed; this is 3.10 (")
    assert "Traceback" not in done.stderr


LOOP = "while True:\n            pass"
SLEEP = "import time\n        time.sleep(10**6)"
NAPS = "import time\n        while True:\n            time.sleep(0.01)"  # a loop that costs little


@pytest.mark.parametrize(
    ("hang", "limit", "seconds", "of", "later"),
    [
        (LOOP, "cpu_seconds = 10", 0.2, " of processor time", {"get_batch": 5}),
        pytest.param(SLEEP, "wall_seconds = 40.0", 6, "", {}, marks=pytest.mark.proof),
    ],
)
def test_a_test_that_hangs_ends_at_its_limit(work, hang, limit, seconds, of, later, check):
    """It is told with its line. The problem's remaining tests are skipped, all others run."""
    changed(work / "assignment/problems.toml", limit, f"{limit.split()[0]} = {seconds}")
    linear(work, hang)
    solve(work, "tensor_memory", "data")
    done = check(work, "tensor_memory", "linear", *later)
    assert done.returncode == 1
    assert re.search(
        rf"first failure\nlinear: still running after {seconds} s{of}, the limit of a test\n"
        r"  at        assignment/linear\.py:\d+ in Linear\.forward\n",
        done.stdout,
    ), done.stdout
    for name, points in {"tensor_memory": 3, **later}.items():
        assert found(rf"^{name} +{points} points .* done$", done.stdout)


def test_all_failures_of_a_problem_are_shown_within_the_limits(work, check):
    """With --all, the tests after one that hangs run as well; the next step says so.

    An import that does not end is told as that: its module and the line, no limit of a test.
    """
    changed(work / "assignment/problems.toml", "cpu_seconds = 10", "cpu_seconds = 0.2")
    once = "import os\nif not os.path.exists('begun'):\n    open('begun', 'w')\n"
    once += "    while True:\n        pass\n"
    changed(work / "assignment/linear.py", '"""', f'{once}"""')
    body = "    # BEGIN SOLUTION(lr_schedule)\n"
    wrong = "    while (it, warmup_iters, max_learning_rate) == (20, 10, 1.0):\n        pass\n"
    wrong += "    if it == 30:\n        return 9.0\n"
    solved(work, "optimizers", body, body + wrong)
    done = check(work, "lr_schedule", "gradient_clipping", "linear", "--all")
    assert done.returncode == 1
    said = re.findall(r"^lr_schedule(?: · \w+)?: (.*)$", done.stdout, re.MULTILINE)
    limit = "still running after 0.2 s of processor time, the limit of a test"
    assert sorted(said) == [limit, "wrong value"]
    assert "\n  and       1 more like this: test_real_rates\n" in done.stdout
    assert found(r"^lr_schedule +2 points .* 6/9 +failing$", done.stdout)
    assert "run `python -m assignment check linear`" in done.stdout
    assert "first failure" not in done.stdout
    slow = "linear: importing assignment/linear.py takes longer than 0.2 s of processor time: look "
    assert found(rf"^{slow}.*\n  at        assignment/linear\.py:[45] in <module>$", done.stdout)


def test_tests_that_were_not_attempted_take_one_line_in_pytest(work):
    """Its own output has no section for each of them, and it still exits with 1.

    The id after -k is part of another problem's id and of tests' names.
    """
    files = (work / "tests/public").glob("test_[act]*.py")
    done = run(work, "pytest", "-q", "-k", "checkpoint", *files)
    assert done.returncode == 1
    told = re.findall(r"^\d+ tests not attempted yet: (.*)$", done.stdout, re.MULTILINE)
    assert told == ["checkpoint: see handout §10.1"]
    assert "FAILURES" not in done.stdout
    assert len(done.stdout.splitlines()) < 6


def test_whoever_reads_enough_of_a_command_ends_it_without_a_word(work):
    done = ran(["sh", "-c", f"{shlex.quote(python())} -m assignment submit | head -1"], cwd=work)
    assert done.stdout.startswith("submission.zip: ")
    assert done.stderr == ""


@pytest.mark.parametrize(
    "crash", every(2, ["import os\n        os.abort()", "import os\n        os._exit(3)"])
)
def test_a_test_that_crashes_ends_alone(work, crash, check):
    """Python's own crash report is not shown."""
    linear(work, crash)
    solved(work, "optimizers", ends="\n\ndef never():\n    open('/home/me/x')\n")
    done = check(work, "linear", "adamw")
    assert (done.returncode, done.stderr) == (1, "")
    assert done.stdout.count("a file that the grader does not have") == 1  # of two processes
    assert "linear: the test process ended unexpectedly (" in done.stdout
    if "abort" in crash:
        assert re.search(r"at        assignment/linear\.py:\d+ in forward\n", done.stdout)
    assert found(r"^adamw +5 points .* done$", done.stdout)


def test_breakpoint_stops_where_the_student_wants(work):
    """The debugger reads from the terminal, and quitting it ends the run."""
    linear(work, f"breakpoint()\n        {FORWARD}")
    done = run(work, "assignment", "check", "linear", input="p tuple(x.shape)\nc\nq\n")
    # Python 3.13 ends the prompt's line.
    assert found(r"^\(Pdb\) \n?\(2,\)$", done.stdout), done.stdout
    assert found(r"^stopped at assignment/linear\.py:\d+ in ", done.stdout)


def test_the_next_run_begins_with_what_has_changed(work, check):
    """Problems that were and are done and have not changed share one line at the end."""
    solve(work, "linear", "tensor_memory", "optimizers")
    assert "still done" not in check(work, "tensor_memory", "linear", "lr_schedule").stdout
    linear(work, "return 2 * x")
    done = check(work, "tensor_memory", "linear", "lr_schedule")
    assert done.stdout.startswith("3 problems; changed ones first: linear\n")
    assert rows(done) == ["linear"]
    assert "\nstill done (2): tensor_memory, lr_schedule\n" in done.stdout
    assert "2 of 3 problems done" in done.stdout
    (work / "tests/public/test_lr_schedule.py").write_text("def test_new(): assert False\n")
    done = check(work, "tensor_memory", "linear", "lr_schedule")
    assert rows(done) == ["linear", "lr_schedule"]
    assert "\nstill done (1): tensor_memory\n" in done.stdout
    (work / "assignment" / "helpers.py").write_text("x = 1\n")  # any module may import it
    done = check(work, "tensor_memory", "lr_schedule")
    assert rows(done) == ["tensor_memory", "lr_schedule"]
    (work / ".progress.json").write_text("[1, {")
    assert check(work, "tensor_memory").returncode == 0


@pytest.mark.parametrize(
    ("owner", "moment"), [(checking.Files, "now"), (checking._Run, "_one_process")]
)
def test_ctrl_c_ends_the_watch_at_any_moment(monkeypatch, capfd, work, owner, moment):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(owner, moment, interrupted)
    course = tomllib.loads((work / "assignment/problems.toml").read_text())
    watching = checking.Options(watch=True)
    assert 130 == checking.main(work, course["problem"][:1], course, watching)
    assert "Traceback" not in "".join(capfd.readouterr())


def test_watch_runs_again_when_a_file_is_saved(work):
    """The command goes on to the first open problem, and keeps watching until Ctrl-C."""
    path = linear(work, "return 2 * x @ self.weight.T")
    right = path.read_text().replace("return 2 * x", "return x")
    process = started(work, "--watch")

    def next_run():
        lines = []
        while not lines or not lines[-1].startswith("watching assignment/; Ctrl-C stops"):
            lines.append(process.stdout.readline())
            assert lines[-1], lines
        return "".join(lines)

    with process:
        assert "0 of 1 problems done" in next_run()
        (work / "right").write_text(right)
        (work / "right").replace(path)  # one change, not two
        after = next_run()
        assert re.search("1 problems done.*pass\n\non to tensor_memory\n.*\n0 of 1", after, re.S)
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=30) == 1


def test_the_watch_survives_ctrl_c_in_an_endless_loop(work):
    """The first Ctrl-C ends the test, which says where it was; the second one ends the watch."""
    linear(work, NAPS)
    ours, theirs = os.openpty()
    process = started(work, "--watch", out=theirs)
    os.close(theirs)

    def screen_until(text):
        shown = ""
        while text not in shown:
            shown += os.read(ours, 10_000).decode(errors="replace")
        return shown

    screen_until(" s in assignment/linear.py:")  # the row says how long, and where
    process.send_signal(signal.SIGINT)
    assert "stopped at assignment/linear.py:" in screen_until("watching assignment/")
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=30) == 130
    os.close(ours)


def test_lines_fit_a_terminal(work):
    """All but addresses, which a terminal opens."""
    linear(work, "return 2 * x @ self.weight.T")
    ours, theirs = os.openpty()
    shown = b""
    with started(work, out=theirs) as process:
        os.close(theirs)
        with suppress(OSError):  # its other end is closed
            while read := os.read(ours, 10_000):
                shown += read
    os.close(ours)
    assert process.returncode == 1
    lines = re.split(r"\r\n|\r\x1b\[K", re.sub(r"\x1b\[[\d;]*m", "", shown.decode()))
    assert (
        "  read handout §7.1, then run `python -m assignment check linear --all` (all of" in lines
    )
    assert [line for line in lines if len(line) > 80 and "file://" not in line] == []


def test_an_endless_loop_is_stopped_by_hand_and_located(work):
    linear(work, f'open("started", "w").close()\n        {NAPS}')
    process = started(work, "--markdown", "page.md")
    until((work / "started").exists)
    process.send_signal(signal.SIGINT)
    output, _ = process.communicate(timeout=600)
    assert found(r"^stopped at assignment/linear\.py:\d+ in Linear\.forward$", output), output
    assert "Traceback" not in output
    page = (work / "page.md").read_text()
    stopped = r"stopped at assignment/linear\.py:\d+ in Linear\.forward"
    assert found(rf"^## Stopped\n\n```text\n{stopped}\n```$", page)
    assert found(r"^\| linear \| 4 \| 0 of \d+ \| not run \|$", page)
    assert "## Next" not in page


# --- library calls


DELEGATED = """
import torch

class AdamW(torch.optim.AdamW):
    def __init__(self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.01):
        super().__init__(params, lr, betas, eps, weight_decay)
"""
SENTENCE = (
    r"adamw: (assignment/optimizers\.py:\d+) uses torch\.optim\.AdamW, which you are asked to "
    r"write yourself; the problem would earn 0 of 5 points"
)


def test_a_problem_that_is_left_to_the_library_is_not_done(work, assignment, check):
    """Its public tests pass; the line is named, and another problem of the module is done.

    Nothing is submitted: one sentence names file, line and remedy, or with --anyway is a note. It
    comes before a wrong answer of the same problem, because it costs all points.
    """
    module = solved(work, "optimizers", ends=DELEGATED)
    done = check(work, "lr_schedule", "adamw", "--markdown", "page.md", "--annotations")
    assert done.returncode == 1
    assert found(r"^adamw +5 points .* (\d+)/\1 +forbidden use$", done.stdout), done.stdout
    assert found(r"^lr_schedule .* done$", done.stdout)
    place = found(rf"^first failure\n{SENTENCE}\n  see       handout §8\.2$", done.stdout)[1]
    assert f"next\n  fix {place}\n" in done.stdout
    path, line = place.split()[0].split(":")
    assert f"\n::error file={path},line={line},title=adamw::adamw: " in done.stdout
    assert done.stdout.count("::error") == 1
    assert found(r"^\| adamw \| 5 \| .* \| forbidden use \|$", (work / "page.md").read_text())
    refused = assignment(work, "submit")
    assert refused.returncode == 2
    anyway = "or hand in as it is with `python -m assignment submit --anyway`"
    said = rf"nothing was written: {SENTENCE}\. Write it yourself, {anyway}\n"
    assert re.fullmatch(said, refused.stderr)
    assert list(work.glob("*.zip*")) == []
    done = assignment(work, "submit", "--anyway")
    assert done.returncode == 0
    assert found(rf"^  note: {SENTENCE}$", done.stdout), done.stdout
    assert submissions.read(work / "submission.zip").ignored == []
    changed(module, "(torch.optim.AdamW)", "(torch.optim.Adam)")
    done = check(work, "adamw")
    assert "failing" not in done.stdout
    assert found(r"^first failure\nadamw: .*:\d+ uses torch.optim.Adam,", done.stdout)


# --- check --markdown

PROBLEM = {"id": "linear", "module": "linear", "section": "7.1", "points": 5}


def test_an_import_that_the_grader_lacks_is_told_before_it_costs_a_module(work, assignment, check):
    """The package is on the student's machine, so that every public test passes."""
    (work / "tqdm.py").write_text("def tqdm(x): return x")
    solved(work, "linear", begins="from tqdm import tqdm\n")
    told = r"assignment/linear.py:1 imports tqdm; the grader has only assignment/, "
    checked = check(work, "linear")
    assert checked.returncode == 1
    assert found(r"^linear .* (\d+)/\1 +fails there$", checked.stdout)
    assert f"\nfirst failure\nlinear: {told}" in checked.stdout
    assert checked.stdout.index(f"  linear: {told}") < checked.stdout.index("fails there")
    refused = assignment(work, "submit")
    assert refused.returncode == 2
    assert told in refused.stderr
    assert not (work / "submission.zip").exists()
    solved(work, "optimizers", begins="from tqdm import tqdm\n")
    done = assignment(work, "submit", "--anyway")
    assert done.returncode == 0
    (note,) = [line for line in done.stdout.splitlines() if "optimizers.py:1 imports" in line]
    assert note.startswith("  note: optimizers: assignment/optimizers.py:1 imports tqdm; ")
    assert note.endswith(" (so would adamw, gradient_clipping, lr_schedule)")


def outcome(text="linear: wrong values", problem=PROBLEM, place="assignment/linear.py:41 in f"):
    row = ProblemProgress(problem, tests=6, ended=["passed"] * 5 + ["failed"])
    test = "tests/public/test_linear.py:9 test_linear"
    return RunOutcome([row], [Failure(problem, True, text, place, test)])


def parts(page):
    """Parse a Markdown page: the kinds of its parts, and the texts that they show."""
    tokens = MarkdownIt("commonmark").enable(["table", "strikethrough"]).parse(page)
    spans = [span for token in tokens for span in token.children or []]
    kinds = [token.type for token in tokens]
    kinds += sorted({span.type for span in spans} - {"text", "text_special"})
    whole = [token for token in tokens if token.content]
    return kinds, ["".join(part.content for part in t.children or [t]) for t in whole]


def test_a_wrong_answer_is_shown_in_full_and_the_page_says_the_same(work, check):
    """An earlier problem that was not attempted does not hide it."""
    linear(work, "return 2 * x @ self.weight.T")
    solve(work, "resource_accounting")
    done = check(work, "napkin_math", "linear", "adamw", "--markdown", "page.md")
    assert done.returncode == 1
    assert found(r"^linear +4 points .* failing$", done.stdout)
    assert found(r"^first failure\nlinear · Linear\S*: wrong values", done.stdout)
    assert found(r"^  expected  .*\n  got       ", done.stdout)
    assert found(r"^  test      tests/public/test_linear\.py:\d+ test_\w+", done.stdout)
    assert re.search(r"next\n  fix assignment/linear\.py:\d+ in Linear\S*\n", done.stdout)
    page = (work / "page.md").read_text(encoding="utf-8")
    assert page.startswith(
        "# Public tests: 1 of 3 problems done\n\n"
        "**Advisory:** only the public tests. Points come from "
    )
    row = r"^\| (\S+) \| (\d) \| \d+ of \d+ \| ([\w ]+) \|$"
    first, *others = re.findall(row, page, re.MULTILINE)
    assert first == ("napkin\\_math", "5", "done")
    assert others == [("linear", "4", "failing"), ("adamw", "5", "not attempted")]
    total, failure, todo = re.search(
        r"done, (.*)\n\nfirst failure\n((?:.|\n)*)\n\nnext\n((?:.|\n)*)\n$", done.stdout
    ).groups()
    said = f"\n\n{total}.\n\n## First failure\n\n```text\n{failure}\n```\n\n## Next\n\n```text\n"
    assert said in page
    assert page.endswith(f"```text\n{re.sub('^  ', '', todo, flags=re.MULTILINE)}\n```\n")


PLACE = "it has to be a file in an existing folder"


@pytest.mark.parametrize(
    ("call", "said"),
    [
        ("check adamv", "there is no problem adamv; did you mean adamw?"),
        ("check --markdown taken", f"error: taken cannot be written: {PLACE}"),
        ("check --markdown none/page.md", f"error: none/page.md cannot be written: {PLACE}"),
        ("submit taken", "taken is a folder"),
        ("submit none/here.zip", "none/here.zip cannot be written"),
    ],
)
def test_a_wrong_call_is_told_before_a_test_runs(work, call, said):
    (work / "taken").mkdir()
    done = run(work, "assignment", *call.split())
    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr


def test_a_page_that_cannot_be_written_is_told_and_one_without_results_stays(work, check):
    """A broken public test gives exit code 2 and leaves no half-written file next to the page."""
    (work / "gone").mkdir()
    solved(work, "linear", ends='\n\nimport os\n\nos.rmdir("gone")\n')
    done = check(work, "linear", "--markdown", "gone/page.md")
    assert done.returncode == 2
    assert done.stderr == "gone/page.md cannot be written: No such file or directory\n"
    assert "1 of 1 problems done" in done.stdout
    (work / "tests/public/test_linear.py").write_text("def broken(:\n")
    (work / "page.md").write_text("old")
    done = check(work, "linear", "--markdown", "page.md")
    assert done.returncode == 2
    assert (work / "page.md").read_text() == "old"
    assert list(work.glob(".*.partial")) == []


def test_an_exception_is_told_with_its_place_and_cannot_break_the_page(work, check):
    """Fences, tables, HTML, control characters and lone surrogates in an exception do no harm."""
    text = r"a\n````\n# owned\n<img src=x>\r| a | b |\x1b[2J \u202e \ud800 @all"
    linear(work, f"""raise type("E```<b>", (Exception,), {{}})("{text}")""")
    done = check(work, "linear", "--markdown", "page.md")
    assert done.returncode == 1
    assert "\nfirst failure\nlinear: raised E```<b>: a\n" in done.stdout
    assert found(r"^  at        assignment/linear\.py:\d+ in Linear\.forward$", done.stdout)
    assert "\n  inputs    x [1, 10], weight [[2, 3]]\n" in done.stdout
    assert "Traceback" not in done.stdout + done.stderr
    kinds, texts = parts((work / "page.md").read_text(encoding="utf-8"))
    assert kinds == parts(progress_markdown.render(outcome()))[0]
    (shown,) = [text for text in texts if "raised" in text]
    assert shown.startswith(
        "linear: raised E```<b>: a\n````\n# owned\n"
        "<img src=x>\\r| a | b |\\x1b[2J \\u202e \\ud800 @all\n"
    )


ODD = st.sampled_from("`~|<>&#*_[]()!\\\r\n\t \x1b\u2028\u202e")


@given(st.text(ODD | st.characters(), max_size=60))
def test_no_text_breaks_the_page(text):
    """The page never has a link, emphasis or HTML from any message, place or id."""
    page = progress_markdown.render(outcome(text, {**PROBLEM, "id": text}, place=text))
    page.encode()
    kinds, texts = parts(page)
    assert kinds == parts(progress_markdown.render(outcome()))[0]
    assert "failing" in texts


def test_a_page_has_an_end():
    """A message of ten megabytes is shortened; GitHub shows no summary above 1 MiB."""
    page = progress_markdown.render(outcome("`" * 10_000_000, place="x" * 10_000_000))
    assert len(page.encode()) < 500_000


# --- submit


def test_what_is_submitted_is_what_the_grader_takes(work, assignment):
    """It says what is not done. The same modules give the same zip, whenever they were saved."""
    solve(work, "linear")
    (work / "assignment/my_helpers.py").write_text("HALF = 0.5\n")
    (work / "assignment/notes.txt").write_text("mine\n")
    done = assignment(work, "submit")
    assert done.returncode == 0, done.stderr
    read = submissions.read(work / "submission.zip")
    assert read.ignored == []
    assert set(read.sources) == {
        *(f"assignment/{module}.py" for module in COURSE.modules),
        "assignment/my_helpers.py",
    }
    assert f"sources {read.sha256[:12]}" in done.stdout
    assert "left out: assignment/notes.txt (not a Python module or race.json)" in done.stdout
    for path, content in read.sources.items():
        assert found(rf"^  {path} +{len(content):,} bytes", done.stdout)
        assert content == (work / path).read_bytes()
        os.utime(work / path, (1_000_000_000, 1_000_000_000))
    assert found(r"^  assignment/linear\.py +[\d,]+ bytes$", done.stdout)
    left = sum(len(p.functions) for p in COURSE.problems if p.module == "tensor_memory")
    assert found(rf"^  assignment/tensor_memory\.py .* still to do in {left} places$", done.stdout)
    assignment(work, "submit", "again.zip")
    assert (work / "submission.zip").read_bytes() == (work / "again.zip").read_bytes()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "assignment/data.py is missing"),
        ("x = (\n", r"assignment/data.py:1 is not Python: '\(' was never closed"),
        (b"x = '\xff'\n", "assignment/data.py.* is not Python"),
        ("x\n<<<<<<< HEAD\n", "assignment/data.py:2 is not Python: a merge was not finished: keep"),
        ("x = 1\0\n", "assignment/data.py.* is not Python"),
        ("\nawait x\n", "assignment/data.py:2 is not Python: 'await' outside function"),
        ("#" * 11 * 2**20, ".*11,.* more than 10,485,760; the largest is assignment/data.py"),
        (range(220), "there are more than 200 files to grade"),
    ],
    ids=["missing", "syntax", "not utf-8", "merge", "nul", "await", "large", "many"],
)
def test_what_the_grader_could_not_run_is_not_submitted(work, capsys, content, message):
    path = work / "assignment" / "data.py"
    if content is None:
        path.unlink()
    elif isinstance(content, range):
        for number in content:
            path.with_name(f"m{number}.py").touch()
    else:
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    assert student_command.main(work, ["submit", str(work / "submission.zip")]) == 2
    said = capsys.readouterr().err
    assert re.search(f"^nothing was written: {message}", said), said
    assert "Traceback" not in said
    assert list(work.glob("*.zip*")) == []


@pytest.mark.parametrize("fail_at", ["fsync", "replace"])
@pytest.mark.parametrize(
    "error",
    [KeyboardInterrupt, OSError(28, "No space left on device")],
    ids=["interrupted", "full"],
)
def test_an_interrupted_submit_leaves_the_old_zip_and_nothing_else(
    tmp_path, monkeypatch, fail_at, error
):
    out = tmp_path / "submission.zip"
    out.write_bytes(b"old")

    def fail(*arguments):
        raise error

    monkeypatch.setattr(submit.Path if fail_at == "replace" else submit.os, fail_at, fail)
    with pytest.raises((KeyboardInterrupt, submit.Refused)):
        submit.write(out, b"new" * 1000)
    assert out.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["submission.zip"]


@pytest.mark.parametrize(
    "name", ["a" * 101 + ".py", "a/" * 11 + "b.py", "\N{GRINNING FACE}" * 25 + ".json", "a\n.json"]
)
def test_what_the_grader_would_refuse_is_not_written(work, name):
    """A path that cannot be graded is named before it is handed in, in the grader's words."""
    path, accepted = f"assignment/{name}", Accepted(files=("*.json",))
    (work / path).parent.mkdir(parents=True, exist_ok=True)
    (work / path).write_text("x = 1\n")
    with zipfile.ZipFile(work / "by_hand.zip", "w") as archive:
        archive.write(work / path, path)
    with pytest.raises(SubmissionRefused) as theirs:
        submissions.read(work / "by_hand.zip", accepted)
    with pytest.raises(submit.Refused) as ours:
        submit.collect(work, [], accepted)
    assert str(theirs.value) == str(ours.value)


def test_in_the_folder_below_one_sentence_says_where_to_go():
    """`python -m assignment` in assignment/ needs no package and imports none."""
    done = ran([sys.executable, "-S", "-m", "assignment"], cwd=ROOT / "assignment")
    said = f'`python -m assignment` runs in the folder above this one: first `cd "{ROOT}"`\n'
    assert (done.returncode, done.stdout, done.stderr) == (1, "", said)


def test_the_next_step_has_the_address_of_its_section(work, check):
    """It points to the handout in the student's folder, if there is one."""
    with (work / "assignment/tensor_memory.py").open("a", encoding="utf-8") as module:
        module.write("\n\ndef contiguous_strides(shape):\n    return tuple(shape)\n")
    assert "open file:" not in check(work, "gradient_clipping").stdout
    site = work / "handout" / "site"
    site.mkdir(parents=True)
    (site / "01_a_second_page_of_the_chapter.html").write_text('<span id="section-1-1">')
    page = site / "01_tensor_memory.html"
    page.write_text('<span id="section-1-2">')
    shown = check(work, "storage_views").stdout
    assert shown.endswith(f"  open {page.as_uri()}#section-1-2\n")
    assert "\n  places in the storage\n  expected          got\n" in shown


def mismatch(check, *given, **options):
    with pytest.raises(expect.Mismatch) as raised:
        check(*given, **options)
    return raised.value


X = torch.arange(8.0)
LENGTHS = {"of": "CheckpointedSequential", "inputs": "7 layers, 2 segments"}
STRIDES = {"of": "view_strides", "optional": True}
PLACES = "places in the storage|expected    got|"


@pytest.mark.parametrize(
    ("error", "drawn"),
    [
        (
            mismatch(expect.value, (2, 1), (1, 3), **STRIDES, inputs="(3, 2), (1, 3), (3, 2)"),
            f"{PLACES}0 3           0 [1]|1 4         [2] [3]|2 5         [4]   5",
        ),
        (
            mismatch(expect.value, (1,), None, **STRIDES, inputs="(2, 2), (8, 1), (4,)"),
            f"{PLACES}0 1 8 9       0   1 [2] [3]",
        ),
        (
            mismatch(expect.tensor, X.view(2, 4), X.view(2, 2, 2).mT.reshape(2, 4), of="patchify"),
            "|expected    got|0 2 1 3       0 [1] [2]   3|4 6 5 7       4 [5] [6]   7",
        ),
        (
            mismatch(expect.tensor, X, X.view(2, 4), of="f"),
            "|expected    got|0 1 2 3       0   1   2   3 [4] [5] [6] [7]|4 5 6 7",
        ),
        (
            mismatch(expect.value, [2, 2, 3], [3, 4], **LENGTHS),
            "expected  [0 1 2][3 4 5 6]|got       [0 1][2 3][4 5 6]",
        ),
        (mismatch(expect.value, [10**9], [7], **LENGTHS), ""),
        (mismatch(expect.value, "text", [7], **LENGTHS), ""),
        (mismatch(expect.tensor, X / 3, X / 4, of="f"), ""),
        (mismatch(expect.tensor, X.expand(9, 8), X.expand(8, 8), of="f"), ""),
        (mismatch(expect.tensor, None, X, of="f"), ""),
        (mismatch(expect.value, (1,), (2,), of="view_strides", inputs="no numbers"), ""),
        (mismatch(expect.number, 1.0, 2.0, of="f", tolerance=0), ""),
    ],
    ids=itertools.count(),
)
def test_what_was_expected_is_drawn_beside_what_came(error, drawn):
    assert "|".join(line.strip() for line in mismatch_pictures.picture(error).splitlines()) == drawn
