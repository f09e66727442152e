"""The command line, run as users run it: inputs, output and exit codes."""

import json
import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from rich.cells import cell_len

from grader.base.errors import Status
from grader.commands import grading, progress
from grader.course import courses
from grader.report import json_report
from grader.report.reported import Reported
from grader.results.points import problem_result, submission_result
from grader.results.records import GraderInfo, Outcome, SubmissionInfo
from grader.sandbox import gpus
from tests.grader.conftest import starts_sooner

pytestmark = pytest.mark.slow


def without_times(text: str) -> dict[str, Any]:
    """A result's JSON without the parts that may differ between two runs."""
    return json.loads(re.sub(r'"seconds": [\d.e-]+', '"seconds": 0', text))


GRADED_ONCE = pytest.mark.xdist_group("sample")


@pytest.fixture(scope="module")
def sample(grader, root, tmp_path_factory):
    """Grade the sample submission once, and return the output and the JSON."""
    folder = tmp_path_factory.mktemp("sample")
    names = {f"--{kind}": folder / f"result.{kind}" for kind in ("json", "html", "markdown")}
    options = [part for option in names.items() for part in option]
    done = grader("grade", root / "examples" / "sample.zip", *options)
    return done, *(path.read_text() for path in names.values())


@GRADED_ONCE
def test_the_sample_is_graded_with_exit_code_0(sample):
    """The command succeeds even if the submission is partly wrong."""
    done, text, _, _ = sample
    assert done.returncode == 0, done.stderr
    statuses = {problem["id"]: problem["status"] for problem in json.loads(text)["problems"]}
    expected = {"tensor_memory": "failed", "storage_views": "crashed", "linear": "passed"}
    expected |= {"adamw": "failed", "get_batch": "failed"}
    assert {
        name: status for name, status in statuses.items() if status != "not_attempted"
    } == expected
    assert list(statuses) == [problem.id for problem in courses.load().problems]


@GRADED_ONCE
def test_the_json_has_the_documented_shape(sample):
    """The JSON matches schema 2 field by field."""
    result = json.loads(sample[1])
    assert list(result) == [
        "schema",
        "submission",
        "grader",
        "runs",
        "score",
        "max_score",
        "pending",
        "seconds",
        "problems",
    ]
    assert list(result["submission"]) == ["name", "sha256", "files", "ignored"]
    assert list(result["grader"]) == [
        "version",
        "suite_sha256",
        "device",
        "isolation",
        "seed",
        "environment",
        "readings",
    ]
    assert list(result["grader"]["environment"]) == ["python", "torch"]
    problem = result["problems"][0]
    assert list(problem) == [
        "id",
        "module",
        "device",
        "score",
        "max_score",
        "pending",
        "status",
        "tests",
    ]
    said = ["about", "what", "facts", "rule", "mistake", "hint"]
    test = ["id", "device", "status", "weight", *said, "seconds", "score", "max_score"]
    assert list(problem["tests"][0]) == test
    assert result["schema"] == 2
    assert result["score"] == pytest.approx(sum(p["score"] for p in result["problems"]))


@GRADED_ONCE
def test_the_report_fits_80_columns_and_has_no_colour_when_piped(sample):
    """A log or a mail shows this form of the report."""
    lines = sample[0].stdout.splitlines()
    assert max(map(cell_len, lines)) <= 80
    assert "\x1b" not in sample[0].stdout
    assert not [line for line in lines if line != line.rstrip()]


@GRADED_ONCE
def test_the_other_reports_of_a_grade_have_the_same_points(sample):
    """The HTML page also quotes the student's line at which the process crashed."""
    score = json.loads(sample[1])["score"]
    page, markdown = sample[2:]
    points = sum(p.points for p in courses.load().problems if p.device == "cpu")
    assert f"<h1>{score:.2f} of {points} points</h1>" in page
    assert f"## {score:.2f} of {points} points" in markdown
    line = re.search(r"at +assignment/tensor_memory\.py:(\d+) in sliding_windows", sample[0].stdout)
    assert f'<span class="at">{line[1]}</span>' in page.split("line marked")[1][:60]


@GRADED_ONCE
def test_the_report_says_what_crashed_where_and_what_was_not_graded(sample):
    """The report has the student's line of code, the isolation level and the ignored files."""
    report = sample[0].stdout
    assert "storage_views · sliding_windows: its process was ended by signal 11" in report, report
    assert re.search(r"at +assignment/tensor_memory\.py:\d+ in sliding_windows", report)
    assert "isolation bubblewrap" in report
    assert "outside assignment/: notes.txt" in report


@GRADED_ONCE
def test_the_readme_shows_what_the_sample_really_prints(sample, root):
    """The report in the README is the real output of the sample."""
    picture = re.search(r"```\n(─.*?)\n```", (root / "README.md").read_text(), re.DOTALL)
    assert picture is not None
    shown = picture[1].split("\n…\n")
    assert all(part.strip("\n") in sample[0].stdout for part in shown)


def test_the_sample_zip_is_made_from_the_stubs(root, tmp_path):
    """examples/build.py reproduces the committed zip byte for byte; `make stubs` runs it."""
    namespace: dict[str, Any] = {
        "__file__": str(root / "examples" / "build.py"),
        "__name__": "build",
    }
    exec((root / "examples" / "build.py").read_text(), namespace)
    namespace["build"](tmp_path / "sample.zip")
    assert (tmp_path / "sample.zip").read_bytes() == (root / "examples" / "sample.zip").read_bytes()


@pytest.mark.slow
@GRADED_ONCE
def test_two_runs_with_one_seed_give_the_same_json(sample, grader, root, tmp_path):
    """With one submission, suite and seed, the JSON is the same except for the times.

    Only four problems that the sample attempts are graded again.
    """
    chosen = ["tensor_memory", "storage_views", "linear", "adamw"]
    only = [word for name in chosen for word in ("--only", name)]
    grader("grade", root / "examples" / "sample.zip", "--json", tmp_path / "again.json", *only)
    again, first = without_times((tmp_path / "again.json").read_text()), without_times(sample[1])
    assert again["problems"] == [
        problem for problem in first["problems"] if problem["id"] in chosen
    ]
    assert (again["submission"], again["grader"]) == (first["submission"], first["grader"])


@pytest.mark.slow
def test_the_reference_has_every_point(grader, root, tmp_path):
    """A CPU run gives the reference exactly full marks, with the points of CUDA problems pending.

    Merged with a CUDA run, it has all points.
    """
    right = tmp_path / "right"
    shutil.copytree(root / "grader" / "solutions" / "reference", right / "assignment")
    done = grader("grade", right, "--json", tmp_path / "r.json")
    result = json.loads((tmp_path / "r.json").read_text())
    assert done.returncode == 0, done.stderr
    assert result["score"] == result["max_score"], done.stdout
    expected = {
        problem.id: "passed" if problem.device == "cpu" else "deferred"
        for problem in courses.load().problems
    }
    assert {problem["id"]: problem["status"] for problem in result["problems"]} == expected
    of_cpu, of_all = (
        sum(p.points for p in courses.load().problems if p.device in devices)
        for devices in (["cpu"], ["cpu", "cuda"])
    )
    assert (of_cpu, of_all - of_cpu) == (result["score"], result["pending"])
    (tmp_path / "gpu.json").write_text(
        json_report.render(Reported(on_a_gpu(json_report.read(tmp_path / "r.json"))))
    )
    merged = grader(
        "merge", tmp_path / "gpu.json", tmp_path / "r.json", "--json", tmp_path / "merged.json"
    )
    assert merged.returncode == 0, merged.stderr
    whole = json.loads((tmp_path / "merged.json").read_text())
    assert (of_all, of_all, 0) == (whole["score"], whole["max_score"], whole["pending"])
    assert {"passed"} == {
        test["status"] for problem in whole["problems"] for test in problem["tests"]
    }


def on_a_gpu(cpu):
    """A CUDA run's result in which every test passes, derived from a CPU run's result.

    This machine has no GPU to make a real one.
    """
    ends = {"cpu": Status.DEFERRED, "cuda": Status.PASSED}
    problems = []
    for p in cpu.problems:
        outcomes = [
            Outcome(id=t.id, device=t.device, weight=t.weight, status=ends[t.device])
            for t in p.tests
        ]
        problems.append(problem_result(p.id, p.module, p.max_score, outcomes, p.device))
    info = msgspec.structs.replace(cpu.grader, device="cuda")
    return submission_result(cpu.submission, info, problems, seconds=1.0)


@pytest.mark.slow
def test_the_stubs_have_none(grader, root, tmp_path):
    """Stubs score exactly 0 and have the status not_attempted.

    test_validate grades the stub of every problem.
    """
    shutil.copytree(root / "assignment", tmp_path / "stubs" / "assignment")
    done = grader(
        "grade",
        tmp_path / "stubs",
        "--json",
        tmp_path / "r.json",
        "--only",
        "linear",
        "--only",
        "adamw",
        "--only",
        "checkpoint",
    )
    result = json.loads((tmp_path / "r.json").read_text())
    assert done.returncode == 0, done.stderr
    assert result["score"] == 0
    assert {problem["status"] for problem in result["problems"]} == {"not_attempted"}


def run_on(device, file, *, status=Status.PASSED, seed=0, what=""):
    """Write the result of a run of two problems.

    `linear` has one test for each device, `tensor_memory` one for a CPU.
    """

    def ended(test, on):
        if on != device:
            return Outcome(id=test, device=on, weight=1, status=Status.DEFERRED, what="waits")
        return Outcome(id=test, device=on, weight=1, status=status, what=what)

    info = GraderInfo(
        version="1", suite_sha256="cd" * 32, device=device, isolation="bubblewrap", seed=seed
    )
    problems = [
        problem_result(
            "linear", "linear", 6, [ended("test_a", "cpu"), ended("cuda/test_b", "cuda")]
        ),
        problem_result("tensor_memory", "tensor_memory", 4, [ended("test_c", "cpu")]),
    ]
    submission = SubmissionInfo(name="ada", sha256="ab" * 32, files=[], ignored=[])
    file.write_text(
        json_report.render(Reported(submission_result(submission, info, problems, seconds=1.5)))
    )
    return file


def test_two_runs_are_merged_to_one_report_and_one_json(grader, tmp_path):
    """Both orders give the same bytes, with the problems in the course's order."""
    cpu, cuda = run_on("cpu", tmp_path / "cpu.json"), run_on("cuda", tmp_path / "cuda.json")
    done = grader("merge", cpu, cuda, "--json", tmp_path / "one.json")
    assert (done.returncode, done.stderr) == (0, "")
    assert "score 10.00 of 10   in 3.0 s" in done.stdout
    assert "device cpu+cuda" in done.stdout
    page, text = tmp_path / "one.html", tmp_path / "one.md"
    junit, results = tmp_path / "one.xml", tmp_path / "results.json"
    again = grader(
        *("merge", cpu, cuda, "--html", page, "--markdown", text),
        *("--junit", junit, "--gradescope", results),
    )
    assert (again.returncode, again.stdout) == (0, done.stdout)
    assert '<testsuite name="linear"' in junit.read_text()
    assert json.loads(results.read_text())["score"] == 10.0
    assert "<h1>10 of 10 points</h1>" in page.read_text()
    assert text.read_text().startswith("## 10 of 10 points")
    again = grader("merge", cuda, cpu, "--json", tmp_path / "two.json")
    assert (again.returncode, again.stdout) == (0, done.stdout)
    assert (tmp_path / "one.json").read_bytes() == (tmp_path / "two.json").read_bytes()
    result = json_report.read(tmp_path / "one.json")
    assert [(p.id, p.score) for p in result.problems] == [("tensor_memory", 4.0), ("linear", 6.0)]


def test_two_results_are_compared(grader, tmp_path):
    """What the runs differ in, the points of each problem, and each test that ends differently."""
    old = run_on("cpu", tmp_path / "old.json", seed=1, status=Status.FAILED)
    new = run_on("cpu", tmp_path / "new.json")
    done = grader("diff", old, new)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == [
        "changed: seed 1 became 0",
        "points 0.00 of 10, then 10.00 of 10 (+10.00)",
        "  linear: 0.00 of 6, then 6.00 of 6",
        "  tensor_memory: 0.00 of 4, then 4.00 of 4",
        "  linear, test_a: failed, now passed",
        "  tensor_memory, test_c: failed, now passed",
    ]
    faulty = run_on("cpu", tmp_path / "faulty.json", status=Status.GRADER_ERROR)
    done = grader("diff", old, faulty)
    assert done.returncode == 3
    assert "the new result has a fault of the grader: its points do not count" in done.stdout
    assert "  linear, test_a: failed, now grader_error" in done.stdout
    assert grader("diff", new, new).stdout.splitlines() == [
        "points 10.00 of 10, then 10.00 of 10 (+0.00)",
        "no test ends differently",
    ]


def test_a_fault_of_the_grader_in_one_run_is_one_of_the_merged_result(grader, tmp_path):
    """The command exits with 3 and a prominent message, and still writes the JSON."""
    cuda = run_on(
        "cuda", tmp_path / "cuda.json", status=Status.GRADER_ERROR, what="the device was lost"
    )
    done = grader(
        "merge", run_on("cpu", tmp_path / "cpu.json"), cuda, "--json", tmp_path / "one.json"
    )
    assert done.returncode == 3
    assert "The grader failed: this score is not final" in done.stdout
    assert "the device was lost" in done.stdout
    assert json_report.read(tmp_path / "one.json").has_grader_error


def test_runs_that_do_not_go_together_are_refused_in_a_sentence(grader, tmp_path):
    """The command exits with 2 and writes nothing."""
    cuda = run_on("cuda", tmp_path / "cuda.json", seed=1)
    done = grader(
        "merge", run_on("cpu", tmp_path / "cpu.json"), cuda, "--json", tmp_path / "one.json"
    )
    sentence = (
        "grader: the two results are of different seeds: 0 on the CPU, 1 on the CUDA device\n"
    )
    assert (done.returncode, done.stdout, done.stderr) == (2, "", sentence)
    assert not (tmp_path / "one.json").exists()


def test_a_strangers_json_cannot_command_the_terminal(grader, tmp_path):
    """Escape sequences in a message are shown as plain text."""
    cuda = run_on(
        "cuda", tmp_path / "cuda.json", status=Status.FAILED, what="wrong\x1b]0;owned\x07"
    )
    done = grader("merge", run_on("cpu", tmp_path / "cpu.json"), cuda)
    assert r"wrong\x1b]0;owned\x07" in done.stdout
    assert not set(done.stdout) & set("\x1b\x07")


def test_the_name_of_a_strangers_file_cannot_command_a_workflow(grader, tiny, tmp_path):
    """GitHub obeys a line that begins with ::, and ##[ anywhere in a line."""
    path = tmp_path / "eve.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("a\n::error::forged\n##[error]x\x1b[31m.txt", "")
    done = grader("grade", path, *tiny[1:])
    assert done.returncode == 2
    assert done.stderr.startswith(
        "grader: the submission has no assignment/ folder; got a\\n::error"
    )
    assert (1, 0, 0) == (
        done.stderr.count("\n"),
        done.stderr.count("##["),
        done.stderr.count("\x1b"),
    )


def test_a_cuda_device_is_looked_for_only_for_a_cuda_run(monkeypatch):
    """Its node stays open while the command runs, which keeps the driver from shutting it down."""
    events = []
    device = SimpleNamespace(nodes=[Path("/dev/zero")])
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    monkeypatch.setattr(gpus, "find", lambda: events.append("found") or device)
    with grading.device_named("cpu") as none:
        assert none is None
    assert events == []
    before = opened("/dev/zero")
    with grading.device_named("cuda") as got:
        assert (got, events, opened("/dev/zero")) == (device, ["found"], before + 1)
        # This process uses no device.
        assert os.environ["CUDA_VISIBLE_DEVICES"] == ""
    assert opened("/dev/zero") == before


def opened(path):
    """How often this process has a file open."""
    return sum(os.path.realpath(link) == path for link in Path("/proc/self/fd").iterdir())


def test_a_wait_for_a_gpu_is_told_at_once_and_then_now_and_then(capsys, monkeypatch):
    """Without a terminal, the first line comes at once; no later one says the same each second."""
    with progress.advancing("grading") as advance:
        for seconds in (9, 8, 7):
            advance(f"waiting for GPU 0: 1 turn ahead, about {seconds} s", 0, 0)
        monkeypatch.setattr(progress, "SECONDS_BETWEEN_LINES", -1.0)
        advance("waiting for GPU 0: 1 turn ahead, about 6 s", 0, 0)
        advance("relu", 1, 3)
    assert capsys.readouterr().err.splitlines() == [
        "grader: waiting for GPU 0: 1 turn ahead, about 9 s",
        "grader: waiting for GPU 0: 1 turn ahead, about 6 s",
        "grading: 1 of 3 done, now relu",
    ]


@pytest.fixture
def tiny(root, tmp_path):
    """The options that grade with the tiny course, and a solution of it, which starts sooner."""
    course = root / "examples" / "tiny_course"
    shutil.copytree(course / "solutions" / "reference", tmp_path / "ada" / "assignment")
    return tmp_path / "ada", "--course", course


def test_a_single_problem_can_be_graded(grader, tiny, tmp_path):
    """--only leaves all other problems out of the score and the maximum."""
    done = grader("grade", *tiny, "--only", "softmax", "--json", tmp_path / "r.json")
    result = json.loads((tmp_path / "r.json").read_text())
    assert [p["id"] for p in result["problems"]] == ["softmax"]
    assert (done.returncode, result["score"], result["max_score"]) == (0, 2, 2)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["grade", "nowhere.zip"], "grader: nowhere.zip does not exist\n"),
        (["grade", "nowhere.zip", "--seed", "x"], "grader: --seed x: expected a whole number\n"),
    ],
)
def test_a_users_mistake_is_one_sentence_and_exit_code_2(grader, arguments, sentence):
    """Nothing on stdout looks like a report. test_misuses.py has many more, in one process."""
    done = grader(*arguments)
    assert (done.returncode, done.stdout, done.stderr) == (2, "", sentence)


@pytest.mark.parametrize("name", ["python3.10", "python3.9", "python3.8"])
def test_an_older_python_is_told_which_one_is_needed(root, name):
    """An import that only newer ones know would be a traceback."""
    old = shutil.which(name) or next(
        Path.home().glob(f".pyenv/versions/{name[6:]}.*/bin/{name}"), ""
    )
    if not old or subprocess.run([old, "--version"], capture_output=True).returncode:
        pytest.skip(f"needs {name}")
    done = subprocess.run([old, "-m", "grader"], cwd=root, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr.startswith("grader: Python 3.11 or later is needed; this is 3.")
    assert done.stderr.count("\n") == 1


def test_a_package_that_is_not_installed_is_named(root):
    """As after `pip install` of the wheel without its extra, which students need no more than."""
    code = "import sys; sys.modules['typer'] = None; from grader.commands.cli import main; main()"
    done = subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, text=True)
    assert (3, 1) == (done.returncode, done.stderr.count("\n")), done.stderr
    assert "the package typer is not installed: run " in done.stderr


def test_without_bubblewrap_nothing_is_graded(grader, root, tmp_path):
    """The grader fails closed: it exits with 3 and prints the command that installs bubblewrap."""
    environment = {**os.environ, "PATH": str(tmp_path)}
    sample = root / "examples" / "sample.zip"
    done = grader("grade", sample, "--isolation", "bubblewrap", env=environment)
    assert done.returncode == 3
    assert "bubblewrap is not installed" in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""


def test_a_box_that_cannot_be_started_is_our_fault(grader, root, tmp_path):
    """A bwrap that reports its version and then fails gives exit code 3 and is quoted."""
    says = f'case "$1" in --help|--version) exec {shutil.which("bwrap")} "$1";; esac\n'
    fails = "echo 'bwrap: setting up uid map: Permission denied' >&2\nexit 1\n"
    (tmp_path / "bwrap").write_text(f"#!/bin/sh\n{says}{fails}")
    (tmp_path / "bwrap").chmod(0o755)
    done = grader(
        "grade",
        root / "examples" / "sample.zip",
        *("--isolation", "bubblewrap"),
        env={**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"},
    )
    assert done.returncode == 3
    assert "setting up uid map: Permission denied" in done.stderr + done.stdout
    assert "Traceback" not in done.stderr


def test_a_broken_hidden_test_is_our_fault_and_exit_code_3(grader, copy_of_the_course, root):
    """The status is grader_error, the message is prominent, and other problems keep points."""
    broken = (
        starts_sooner(copy_of_the_course) / "tests" / "hidden" / "tensor_memory" / "test_hidden.py"
    )
    broken.write_text(
        broken.read_text().replace("x.numel() * x.element_size()", "x.no_such_thing()")
    )
    shutil.copytree(
        root / "grader" / "solutions" / "reference", copy_of_the_course / "handed_in" / "assignment"
    )
    arguments = [
        "handed_in",
        "--only",
        "tensor_memory",
        "--only",
        "storage_views",
        "--json",
        "r.json",
    ]
    done = grader("grade", *arguments, cwd=copy_of_the_course)
    result = json.loads((copy_of_the_course / "r.json").read_text())
    assert done.returncode == 3
    assert [p["status"] for p in result["problems"]] == ["grader_error", "passed"]
    assert result["problems"][1]["score"] == courses.load().problem("storage_views").points
    assert "The grader failed: this score is not final" in done.stdout
    assert "no_such_thing" in done.stdout


def test_no_isolation_has_to_be_asked_for_and_is_printed(grader, tiny):
    """--isolation none grades, and the report states it."""
    done = grader("grade", *tiny, "--isolation", "none")
    assert done.returncode == 0, done.stderr
    assert "isolation none  (NOT ISOLATED: for debugging only)" in done.stdout


def test_a_syntax_error_costs_its_module_only(grader, root, quick_course, tmp_path):
    """The report names file and line, and the other modules keep their points."""
    shutil.copytree(root / "grader" / "solutions" / "reference", tmp_path / "assignment")
    (tmp_path / "assignment" / "linear.py").write_text("import torch\n\ndef Linear(:\n    pass\n")
    with zipfile.ZipFile(tmp_path / "s.zip", "w") as archive:
        for path in (tmp_path / "assignment").glob("*.py"):
            archive.write(path, f"repository-main/assignment/{path.name}")
    done = grader(
        "grade",
        tmp_path / "s.zip",
        "--only",
        "linear",
        "--only",
        "tensor_memory",
        "--json",
        tmp_path / "r.json",
        "--course",
        quick_course,
    )
    problems = json.loads((tmp_path / "r.json").read_text())["problems"]
    points = courses.load().problem("tensor_memory").points
    assert {p["id"]: p["score"] for p in problems} == {"tensor_memory": points, "linear": 0}
    assert "linear: assignment/linear.py:3: SyntaxError: invalid syntax" in done.stdout


def test_help_names_every_command(grader):
    """`grader` without arguments explains itself."""
    done = grader("--help")
    assert done.returncode == 0
    assert all(command in done.stdout for command in ("grade", "merge", "validate", "stubs"))


def test_the_stubs_have_not_drifted(grader):
    """The files of assignment/ are exactly the reference's stubs."""
    done = grader("stubs", "--check")
    assert (done.returncode, done.stderr) == (0, "")


def test_drift_is_found_and_named(grader, copy_of_the_course):
    """A stub edited by hand is named, and `grader stubs` fixes it."""
    stub = copy_of_the_course / "assignment" / "linear.py"
    stub.write_text(stub.read_text() + "\n# by hand\n")
    done = grader("stubs", "--check", cwd=copy_of_the_course)
    assert done.returncode == 1
    assert (
        done.stderr
        == f"{Path('assignment/linear.py')} differs from its reference: run `grader stubs`\n"
    )
    assert grader("stubs", cwd=copy_of_the_course).stdout == "wrote assignment/linear.py\n"
    assert grader("stubs", "--check", cwd=copy_of_the_course).returncode == 0
