"""The workflows, ours and the students', are safe and use commands that exist.

`make check` runs check-jsonschema and zizmor on each: actions are pinned, tokens read-only, scripts
free of expressions, and runs of one kind in a group. The rules here are about our own machines.
"""

import os
import re
import shlex
import sys
import tomllib
from pathlib import Path

import pytest
import yaml

from grader.course import courses
from grader.sandbox.levels import bubblewrap
from tests.grader.processes import ran

pytestmark = pytest.mark.slow

COURSE = courses.load()
ROOT = Path(__file__).resolve().parents[2]
PLACES = [
    ".github/workflows",
    "grader/publish/bundle/student/.github/workflows",
    "examples/github",  # for a course that grades from its students' repositories
]
WORKFLOWS = [path for place in PLACES for path in sorted((ROOT / place).glob("*.y*ml"))]
CI, GPU = (ROOT / PLACES[0] / f"{name}.yml" for name in ("ci", "gpu"))
STUDENTS, GRADE = ROOT / PLACES[1] / "check.yml", ROOT / PLACES[2] / "grade.yml"
NAMES = [path.relative_to(ROOT).as_posix() for path in WORKFLOWS]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")

HOSTED = re.compile(r"(ubuntu|windows|macos)-[\d.]+")
BY_OURSELVES = {"push", "schedule", "workflow_dispatch"}  # only we can trigger these


def load(text):
    """Load a workflow, with the set of its triggers as "on", a key that YAML reads as true."""
    workflow = yaml.safe_load(text)
    events = workflow.pop(True)
    return workflow | {"on": {events} if isinstance(events, str) else set(events)}


def steps(workflow):
    return [step for job in workflow["jobs"].values() for step in job["steps"]]


# --- the rules that `make workflows` does not check


def complaints(text):
    """Return every rule that a workflow violates."""
    workflow = load(text)
    return [
        *(f"strangers can trigger {e}" for e in workflow["on"] - BY_OURSELVES - {"pull_request"}),
        *(c for name, job in workflow["jobs"].items() for c in of_a_job(name, job, workflow)),
    ]


def machines(job):
    """The machines that a job may run on: the one it names, or all that its matrix lists."""
    if job["runs-on"] != "${{ matrix.system }}":
        return [job["runs-on"]]
    return re.findall('"([^"]*)"', job["strategy"]["matrix"]["system"]) or [None]


def of_a_job(name, job, workflow):
    """Each has a timeout; on our own machines, no stranger, no fork and no cancelling midway."""
    if not isinstance(job.get("timeout-minutes"), int):
        yield f"{name} has no timeout"
    if all(HOSTED.fullmatch(str(machine)) for machine in machines(job)):
        return
    if workflow["on"] - BY_OURSELVES:
        yield f"{name} lets strangers run code on a machine of our own"
    if "github.event.repository.fork == false" not in job.get("if", ""):
        yield f"{name} runs in forks"
    if workflow["concurrency"].get("cancel-in-progress") is not False:
        yield f"{name} may be cancelled midway"


@pytest.mark.parametrize("path", WORKFLOWS, ids=NAMES)
def test_a_workflow_is_bounded_and_closed_to_strangers(path):
    assert complaints(path.read_text(encoding="utf-8")) == []


def test_all_workflows_are_looked_at():
    """The list has our workflows, the students', and an example; so has `make workflows`."""
    assert {CI, GPU, STUDENTS, GRADE} <= set(WORKFLOWS)
    assert [place for place in PLACES if f"{place}/*.yml" not in MAKEFILE] == []


def test_an_action_has_the_same_commit_everywhere():
    uses = re.findall(r"uses: (.+)@(.+) # (v.+)", "".join(path.read_text() for path in WORKFLOWS))
    assert len({name for name, *_ in uses}) == len({(c, version) for _, c, version in uses}) >= 3


# --- versions


PYTHON = "Programming Language :: Python :: "
JOBS = load(CI.read_text(encoding="utf-8"))["jobs"]


def test_the_pythons_are_those_that_pyproject_claims():
    tested = JOBS["test"]["strategy"]["matrix"]["python"]
    assert tested == [n.removeprefix(PYTHON) for n in PROJECT["classifiers"] if PYTHON in n]
    assert PROJECT["requires-python"] == f">={tested[0]}"
    minors = [int(version.removeprefix("3.")) for version in tested]
    assert minors == [*range(minors[0], minors[-1] + 1)]


@pytest.mark.parametrize("path", WORKFLOWS, ids=NAMES)
def test_every_job_has_a_python_that_is_tested(path):
    """No job uses whatever Python the machine has."""
    tested = JOBS["test"]["strategy"]["matrix"]["python"]
    for job in load(path.read_text(encoding="utf-8"))["jobs"].values():
        (python,) = [s["with"]["python-version"] for s in job["steps"] if "setup-python" in str(s)]
        assert python in [*tested, "${{ matrix.python }}"]


def test_the_oldest_torch_is_the_one_that_pyproject_names():
    needed = PROJECT["optional-dependencies"]["assignment"]
    (claimed,) = [one for one in needed if one.startswith("torch")]
    runs = [step.get("run", "") for step in JOBS["test"]["steps"]]
    assert [f"TORCH={claimed.replace('>=', '==')}.0 " in run for run in runs].count(True) == 1
    (one,) = [one for one in JOBS["test"]["strategy"]["matrix"]["include"] if "oldest" in one]
    assert f">={one['python']}" == PROJECT["requires-python"]


# --- commands


@pytest.mark.parametrize("path", WORKFLOWS, ids=NAMES)
def test_every_target_of_make_and_every_setting_exists(path):
    """test_docs.py looks at the commands of the grader."""
    script = "\n".join(step.get("run", "") for step in steps(load(path.read_text())))
    for words in re.findall(r"\bmake ([^|;&\n]*)", script):
        names = re.findall(r"(?<!\S)(\w+)=", words)
        assert [name for name in names if f"$({name})" not in MAKEFILE] == []
        assert ran(["make", "-n", *shlex.split(words)], cwd=ROOT).stderr == ""
    advised = [f"sudo sysctl {name}={value}" for name, (_, value) in bubblewrap.FORBIDDING.items()]
    assert [line for line in re.findall("sudo sysctl.*", script) if line not in advised] == []


def test_make_runs_nothing_that_is_in_the_name_of_a_submission(tmp_path):
    """Neither make nor the shell changes a name, which students choose: the grader sees it all."""
    name = '`exit 9` $(shell touch ran) "; touch ran; " $(exit 9)'
    grades = f"GRADES={tmp_path}"
    command = ["make", "-f", ROOT / "Makefile", "-o", tmp_path, "-o", "bubblewrap", grades]
    command += [f"BIN={Path(sys.executable).parent}", "grade", f"SUBMISSION={name}", "ARGS="]
    # `make test` tells its own options to every make below it.
    env = {key: value for key, value in os.environ.items() if "MAKE" not in key}
    done = ran(command, cwd=tmp_path, env=env)
    assert f"grader: {name} does not exist" in done.stderr
    assert not list(tmp_path.iterdir())


def test_a_summary_of_the_class_is_text():
    """What a student wrote is no link and no picture in Markdown: each line of status is code."""
    text = GRADE.read_text(encoding="utf-8")
    (line,) = [line for line in text.splitlines() if "GITHUB_STEP_SUMMARY" in line]
    assert "| sed 's/^/    /' >>" in line
