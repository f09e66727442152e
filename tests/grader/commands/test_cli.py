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

import msgspec
import pytest
from rich.cells import cell_len

from examples.build import build
from grader.base.errors import Status
from grader.commands import grade_commands
from grader.course import courses
from grader.report import json_report
from grader.report.report_contents import Reported
from grader.results.points import problem_result, submission_result
from grader.results.result_records import Outcome
from grader.sandbox import gpus
from tests.grader import small_courses
from tests.grader.in_this_process import run_on

pytestmark = pytest.mark.slow


def test_the_sample_is_graded_with_exit_code_0(grader, root, tmp_path):
    """The command succeeds even if the submission is partly wrong.

    A log or a mail shows the printed report; README shows parts of it. All reports have the same
    points, and the page also quotes the student's line at which the process crashed.
    """
    build(tmp_path / "sample.zip")
    names = {f"--{kind}": tmp_path / f"result.{kind}" for kind in ("json", "html", "markdown")}
    done = grader("grade", tmp_path / "sample.zip", *(x for pair in names.items() for x in pair))
    assert done.returncode == 0, done.stderr
    text, page, markdown = (path.read_text() for path in names.values())
    result, report = json.loads(text), done.stdout
    statuses = {problem["id"]: problem["status"] for problem in result["problems"]}
    expected = {"tensor_memory": "failed", "storage_views": "crashed", "linear": "passed"}
    expected |= {"adamw": "failed", "get_batch": "failed"}
    assert {p: s for p, s in statuses.items() if s != "not_attempted"} == expected
    assert list(statuses) == [problem.id for problem in courses.load().problems]

    assert max(map(cell_len, report.splitlines())) <= 80
    assert "\x1b" not in report
    assert not re.search(" $", report, re.MULTILINE)
    assert "storage_views · sliding_windows: its process was ended by signal 11" in report, report
    assert "isolation bubblewrap" in report
    assert "outside assignment/: notes.txt" in report
    picture = re.search(r"```\n(─.*?)\n```", (root / "README.md").read_text(), re.DOTALL)
    assert [x for x in picture[1].split("\n…\n") if x.strip("\n") not in report] == []

    points = sum(p.points for p in courses.load().problems if p.device == "cpu")
    assert f"<h1>{result['score']:.2f} of {points} points</h1>" in page
    assert f"## {result['score']:.2f} of {points} points" in markdown
    line = re.search(r"at +assignment/tensor_memory\.py:(\d+) in sliding_windows", report)
    assert f'<span class="at">{line[1]}</span>' in page.split("line marked")[1][:60]


@pytest.mark.proof
def test_the_reference_has_every_point(grader, typed, root, tmp_path):
    """A CPU run has full marks, with pending points; merged with a CUDA run, all points."""
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
    gpu = on_a_gpu(json_report.read(tmp_path / "r.json"))
    (tmp_path / "gpu.json").write_text(json_report.render(Reported(gpu)))
    merge = ("merge", tmp_path / "gpu.json", tmp_path / "r.json")
    assert typed(*merge, "--json", tmp_path / "merged.json")[0] == 0
    whole = json.loads((tmp_path / "merged.json").read_text())
    assert (of_all, of_all, 0) == (whole["score"], whole["max_score"], whole["pending"])
    assert {"passed"} == {t["status"] for p in whole["problems"] for t in p["tests"]}


def on_a_gpu(cpu):
    """A CUDA run's result in which every test passes, made from a CPU run's."""
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


def test_two_runs_are_merged_to_one_report_and_one_json(typed, tmp_path):
    cpu, cuda = run_on("cpu", tmp_path / "cpu.json"), run_on("cuda", tmp_path / "cuda.json")
    code, said, _ = typed("merge", cpu, cuda, "--json", tmp_path / "one.json")
    assert (code, typed.err) == (0, "")
    assert "score 10.00 of 10   in 3.0 s" in said
    assert "device cpu+cuda" in said
    kinds = ("html", "markdown", "gradescope")
    names = [word for kind in kinds for word in (f"--{kind}", tmp_path / kind)]
    assert typed("merge", cpu, cuda, *names)[:2] == (0, said)
    page, text, results = ((tmp_path / kind).read_text() for kind in kinds)
    assert json.loads(results)["score"] == 10.0
    assert "<h1>10 of 10 points</h1>" in page
    assert text.startswith("## 10 of 10 points")
    assert typed("merge", cuda, cpu, "--json", tmp_path / "two.json")[:2] == (0, said)
    assert (tmp_path / "one.json").read_bytes() == (tmp_path / "two.json").read_bytes()
    result = json_report.read(tmp_path / "one.json")
    assert [(p.id, p.score) for p in result.problems] == [("tensor_memory", 4.0), ("linear", 6.0)]


def test_two_results_are_compared(typed, tmp_path):
    old = run_on("cpu", tmp_path / "old.json", seed=1, status=Status.FAILED)
    new = run_on("cpu", tmp_path / "new.json")
    code, said, _ = typed("diff", old, new)
    assert (code, said.splitlines()) == (
        0,
        [
            "changed: seed 1 became 0",
            "points 0.00 of 10, then 10.00 of 10 (+10.00)",
            "  linear: 0.00 of 6, then 6.00 of 6",
            "  tensor_memory: 0.00 of 4, then 4.00 of 4",
            "  linear, test_a: failed, now passed",
            "  tensor_memory, test_c: failed, now passed",
        ],
    )
    faulty = run_on("cpu", tmp_path / "faulty.json", status=Status.GRADER_ERROR)
    code, said, _ = typed("diff", old, faulty)
    assert code == 3
    assert "the new result has a fault of the grader: its points do not count" in said
    assert "  linear, test_a: failed, now grader_error" in said
    same = "points 10.00 of 10, then 10.00 of 10 (+0.00)\nno test ends differently\n"
    assert typed("diff", new, new)[1] == same


def test_a_fault_of_the_grader_in_one_run_is_one_of_the_merged_result(typed, tmp_path):
    """The command exits with 3 and still writes the JSON; escape sequences are shown as text."""
    cuda = tmp_path / "cuda.json"
    run_on("cuda", cuda, status=Status.GRADER_ERROR, what="the device was lost\x1b]0;owned\x07")
    cpu = run_on("cpu", tmp_path / "cpu.json")
    code, said, _ = typed("merge", cpu, cuda, "--json", tmp_path / "one.json")
    assert code == 3
    assert "The grader failed: this score is not final" in said
    assert r"the device was lost\x1b]0;owned\x07" in said
    assert not set(said) & set("\x1b\x07")
    assert json_report.read(tmp_path / "one.json").has_grader_error


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
    assert [1, 0, 0] == [done.stderr.count(part) for part in ("\n", "##[", "\x1b")]


def test_a_cuda_device_is_looked_for_only_for_a_cuda_run(monkeypatch):
    """Its node stays open while the command runs, which keeps the driver from shutting it down."""
    events = []
    device = SimpleNamespace(nodes=[Path("/dev/zero")])
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    monkeypatch.setattr(gpus, "find", lambda: events.append("found") or device)
    with grade_commands.device_named("cpu") as none:
        assert none is None
    assert events == []
    before = opened("/dev/zero")
    with grade_commands.device_named("cuda") as got:
        assert (got, events, opened("/dev/zero")) == (device, ["found"], before + 1)
        # This process uses no device.
        assert os.environ["CUDA_VISIBLE_DEVICES"] == ""
    assert opened("/dev/zero") == before


def opened(path):
    return sum(os.path.realpath(link) == path for link in Path("/proc/self/fd").iterdir())


@pytest.fixture
def tiny(tmp_path):
    """The options that grade with a course without torch, and a solution of it."""
    course = small_courses.with_lists(tmp_path / "course")
    shutil.copytree(course / "solutions" / "reference", tmp_path / "ada" / "assignment")
    return tmp_path / "ada", "--course", course


def test_a_single_problem_is_graded_without_isolation_only_if_asked_for(grader, tiny, tmp_path):
    options = ("--only", "softmax", "--isolation", "none", "--json", tmp_path / "r.json")
    done = grader("grade", *tiny, *options)
    result = json.loads((tmp_path / "r.json").read_text())
    assert [p["id"] for p in result["problems"]] == ["softmax"]
    assert (done.returncode, result["score"], result["max_score"]) == (0, 2, 2), done.stderr
    assert "isolation none  (NOT ISOLATED: for debugging only)" in done.stdout


def test_a_users_mistake_is_one_sentence_and_exit_code_2(grader):
    """Nothing on stdout looks like a report. test_misuses.py has many more, in one process."""
    done = grader("grade", "nowhere.zip")
    sentence = "grader: nowhere.zip does not exist\n"
    assert (done.returncode, done.stdout, done.stderr) == (2, "", sentence)


def test_an_older_python_is_told_which_one_is_needed(root):
    """An import that only newer ones know would be a traceback."""
    names = ("python3.10", "python3.9", "python3.8")
    found = [*filter(None, map(shutil.which, names))]
    found += Path.home().glob(".pyenv/versions/3.[89].*/bin/python3.[89]")
    old = [p for p in found if not subprocess.run([p, "--version"], capture_output=True).returncode]
    if not old:
        pytest.skip("needs Python 3.8, 3.9 or 3.10")
    done = subprocess.run([old[0], "-m", "grader"], cwd=root, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr.startswith("grader: Python 3.11 or later is needed; this is 3.")
    assert done.stderr.count("\n") == 1


def test_a_package_that_is_not_installed_is_named(root):
    """As after `pip install` of the wheel without its extra, which students need no more than."""
    code = "import sys; sys.modules['typer'] = None; from grader.commands.cli import main; main()"
    done = subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, text=True)
    assert (3, 1) == (done.returncode, done.stderr.count("\n")), done.stderr
    assert "the package typer is not installed: run " in done.stderr


SAYS = f'case "$1" in --help|--version) exec {shutil.which("bwrap")} "$1";; esac'
FAILS = "echo 'bwrap: setting up uid map: Permission denied' >&2\nexit 1"


@pytest.mark.parametrize(
    ("program", "said"),
    [
        (None, "bubblewrap is not installed"),
        (f"#!/bin/sh\n{SAYS}\n{FAILS}\n", "setting up uid map: Permission denied"),
    ],
    ids=["no bubblewrap", "one that fails"],
)
def test_without_a_box_nothing_is_graded(typed, tiny, tmp_path, monkeypatch, program, said):
    """The grader fails closed: it exits with 3 and says what is missing, or quotes bubblewrap."""
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin" if program else str(tmp_path))
    if program:
        (tmp_path / "bwrap").write_text(program)
        (tmp_path / "bwrap").chmod(0o755)
    code, out, text = typed("grade", *tiny, "--isolation", "bubblewrap")
    assert code == 3
    assert said in out + typed.err + text


def test_help_names_every_command(typed):
    code, said, _ = typed("--help")
    assert code == 0
    assert all(command in said for command in ("grade", "merge", "validate", "stubs"))


def test_drift_is_found_named_and_mended(typed, copy_of_the_course, monkeypatch):
    """A stub edited by hand and a missing one; right ones are left alone."""
    monkeypatch.chdir(copy_of_the_course)
    stub, data = (Path("assignment") / name for name in ("linear.py", "data.py"))
    right = stub.read_bytes(), data.read_bytes()
    stub.write_bytes(right[0] + b"\n# by hand\n")
    data.unlink()
    check = ("--course", copy_of_the_course, "stubs", "--check")
    assert typed(*check)[0] == 1
    for name in (stub, data):
        assert f"{name} differs from its reference: run `grader stubs`\n" in typed.err
    said = "wrote assignment/linear.py\nwrote assignment/data.py\n"
    assert typed("--course", copy_of_the_course, "stubs")[1] == said
    assert right == (stub.read_bytes(), data.read_bytes())
    assert typed(*check)[0] == 0
