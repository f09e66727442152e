"""The workflows, ours and the students', are safe and use commands that exist.

Actions are pinned, tokens are read-only, jobs have timeouts, and strangers cannot trigger our
machines.
"""

import functools
import json
import os
import re
import shlex
import subprocess
import sys
import tomllib
from itertools import groupby
from pathlib import Path

import pytest
import yaml
from packaging.specifiers import SpecifierSet

from grader.course import courses
from grader.sandbox.levels import bubblewrap
from grader.submission import submissions
from tests.grader.warm_python import python

pytestmark = pytest.mark.slow

COURSE = courses.load()
ROOT = Path(__file__).resolve().parents[2]
PLACES = [
    ".github/workflows",
    "grader/publish/bundle/student/.github/workflows",
    "examples/github",  # for a course that grades from its students' repositories
    "examples/classroom50",
]
WORKFLOWS = [path for place in PLACES for path in sorted((ROOT / place).glob("*.y*ml"))]
CI, GPU, STUDENTS, GRADE = (
    ROOT / place
    for place in (
        f"{PLACES[0]}/ci.yml",
        f"{PLACES[0]}/gpu.yml",
        f"{PLACES[1]}/check.yml",
        f"{PLACES[2]}/grade.yml",
    )
)
NAMES = [path.relative_to(ROOT).as_posix() for path in WORKFLOWS]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")

PIN = re.compile(
    r"\s*(- )?uses: (?P<action>[\w.-]+/[\w./-]+)@(?P<commit>[0-9a-f]{40}) # "
    r"(?P<version>v\d+\.\d+\.\d+)"
)
HOSTED = re.compile(r"(ubuntu|windows|macos)-[\d.]+")
BY_OURSELVES = {"push", "schedule", "workflow_dispatch"}  # only we can trigger these
OF_THE_SYSTEM = {"cat", "head", "sed", "tee", "test"}


def load(text):
    """Load a workflow, with the set of its triggers as "on", a key that YAML reads as true."""
    workflow = yaml.safe_load(text)
    events = workflow.pop(True)
    return workflow | {"on": {events} if isinstance(events, str) else set(events)}


def steps(workflow):
    """Every step of every job."""
    return [step for job in workflow["jobs"].values() for step in job["steps"]]


# --- the rules


def complaints(text):
    """Return every rule that a workflow violates."""
    workflow = load(text)
    found = [
        complaint
        for rule in (permissions, triggers, concurrency, injections, checkouts)
        for complaint in rule(workflow)
    ]
    return [
        *pins(text),
        *found,
        *(c for name, job in workflow["jobs"].items() for c in of_a_job(name, job, workflow)),
    ]


def pins(text):
    """Each action is pinned to a commit, and a comment gives the version."""
    lines = [line for line in text.splitlines() if "uses:" in line]
    yield from (f"not pinned: {line.strip()}" for line in lines if not PIN.fullmatch(line))
    if len(lines) != sum("uses" in step for step in steps(load(text))):
        yield "an action is not written as `uses: …` in a line of its own"


def permissions(workflow):
    """The token may read the repository's contents and nothing else."""
    for where in (workflow, *(job for job in workflow["jobs"].values() if "permissions" in job)):
        if where.get("permissions") != {"contents": "read"}:
            yield f"permissions are {where.get('permissions')}"


def triggers(workflow):
    """Strangers can trigger only `pull_request`, which runs without permissions."""
    for event in workflow["on"] - BY_OURSELVES - {"pull_request"}:
        yield f"strangers can trigger {event}"


def concurrency(workflow):
    """Runs of one kind share a concurrency group: a newer run waits for an older or replaces it."""
    if not workflow.get("concurrency", {}).get("group"):
        yield "no concurrency group"


def injections(workflow):
    """No script contains an expression, because text from an event would be executed."""
    yield from (
        f"an expression in a script: {step['run']}"
        for step in steps(workflow)
        if "${{" in step.get("run", "")
    )


def checkouts(workflow):
    """A checkout does not leave its token on disk."""
    for step in steps(workflow):
        if (
            "actions/checkout" in step.get("uses", "")
            and step.get("with", {}).get("persist-credentials") is not False
        ):
            yield "a checkout keeps its credentials"


def machines(job):
    """The machines that a job may run on: the one it names, or all that its matrix lists."""
    if job["runs-on"] != "${{ matrix.system }}":
        return [job["runs-on"]]
    return re.findall('"([^"]*)"', job["strategy"]["matrix"]["system"]) or [None]


def of_a_job(name, job, workflow):
    """Each job has a timeout.

    A job on one of our own machines is closed to strangers and forks, and is never cancelled
    midway.
    """
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
def test_a_workflow_is_pinned_read_only_bounded_and_closed(path):
    """No rule has a complaint."""
    assert complaints(path.read_text(encoding="utf-8")) == []


def test_all_workflows_are_looked_at():
    """The list has our workflows, the students', and an example."""
    assert {CI, GPU, STUDENTS, GRADE} <= set(WORKFLOWS)


@pytest.mark.parametrize(
    ("path", "old", "new", "complaint"),
    [
        (CI, r"@\w{40} # v[\d.]+", "@v6", "not pinned: - uses: actions/checkout@v6"),
        (CI, r" # v[\d.]+", "", "not pinned: - uses: actions/checkout@"),
        (CI, r"\w # v", " # v", "not pinned: - uses: actions/checkout@"),
        (
            CI,
            "    steps:\n",
            "    steps:\n      - {name: more, 'uses': a/b@v1}\n",
            "not written as `uses: …`",
        ),
        (CI, "  contents: read", "  contents: write", "permissions are {'contents': 'write'}"),
        (CI, "permissions:\n  contents: read\n", "", "permissions are None"),
        (CI, "    steps:", "    permissions: write-all\n    steps:", "permissions are write-all"),
        (
            CI,
            "  pull_request:",
            "  pull_request_target:",
            "strangers can trigger pull_request_target",
        ),
        (
            STUDENTS,
            "  push:\n  workflow_dispatch:",
            "  issue_comment:",
            "strangers can trigger issue_comment",
        ),
        (CI, "concurrency:\n  group", "env:\n  group", "no concurrency group"),
        (
            CI,
            "make check PYTHON=python",
            "echo ${{ github.event.pull_request.title }}",
            "an expression in a script",
        ),
        (
            CI,
            "persist-credentials: false",
            "persist-credentials: true",
            "a checkout keeps its credentials",
        ),
        (
            CI,
            "        with:\n          persist-credentials: false\n",
            "",
            "a checkout keeps its credentials",
        ),
        (CI, "    timeout-minutes: 20\n", "", "check has no timeout"),
        (
            GRADE,
            "  schedule:",
            "  pull_request_target:\n  schedule:",
            "grade lets strangers run code on a machine of our own",
        ),
        (
            GRADE,
            "  schedule:",
            "  workflow_run:\n  schedule:",
            "strangers can trigger workflow_run",
        ),
        (GRADE, "    if: .*fork.*\n", "", "grade runs in forks"),
        (
            GPU,
            "  schedule:",
            "  pull_request:\n  schedule:",
            "gpu lets strangers run code on a machine of our own",
        ),
        (
            CI,
            "runs-on: ubuntu-24.04",
            "runs-on: [self-hosted, gpu]",
            "check lets strangers run code on a machine of our own",
        ),
        (
            CI,
            "runs-on: ubuntu-24.04",
            "runs-on: ${{ vars.RUNNER }}",
            "check lets strangers run code on a machine of our own",
        ),
        (
            STUDENTS,
            '"macos-15"',
            '"self-hosted"',
            "check runs in forks",
        ),
        (GPU, "github.event.repository.fork == false", "always()", "gpu runs in forks"),
        (
            GPU,
            "cancel-in-progress: false",
            "cancel-in-progress: true",
            "gpu may be cancelled midway",
        ),
    ],
)
def test_each_rule_can_have_a_complaint(path, old, new, complaint):
    """Each case changes one thing in a workflow."""
    text = path.read_text(encoding="utf-8")
    changed, count = re.subn(old, new, text, count=1)
    assert count == 1
    assert [c for c in complaints(changed) if complaint in c] != []


def test_an_action_has_the_same_commit_everywhere():
    """All pins of an action were renewed together, and each commit has one version."""
    found = {
        pin.group("action", "commit", "version")
        for path in WORKFLOWS
        for pin in PIN.finditer(path.read_text())
    }
    assert len(found) >= 3
    assert (
        len(found)
        == len({action for action, *_ in found})
        == len({commit for _, commit, _ in found})
    )


# --- versions


PYTHON = "Programming Language :: Python :: "


def versions_complaint(workflow):
    """Return what is wrong with the Python versions of a workflow's jobs, or an empty string."""
    tested = workflow["jobs"]["test"]["strategy"]["matrix"]["python"]
    claimed = [name.removeprefix(PYTHON) for name in PROJECT["classifiers"] if PYTHON in name]
    if tested != claimed:
        return f"the Pythons are {tested}, and the classifiers of pyproject.toml say {claimed}"
    allowed = SpecifierSet(PROJECT["requires-python"])
    if [version for version in ("3.10", *tested) if allowed.contains(version)] != tested:
        return f"the Pythons are {tested}, and requires-python of pyproject.toml is {allowed}"
    return ""


def test_the_pythons_are_those_that_pyproject_claims():
    """All minor versions from the first claimed one on are tested."""
    assert versions_complaint(load(CI.read_text(encoding="utf-8"))) == ""


@pytest.mark.parametrize(
    "pythons",
    ['["3.12", "3.13"]', '["3.10", "3.11", "3.12", "3.13"]', '["3.11", "3.13"]', '["3.11"]'],
)
def test_other_pythons_are_noticed(pythons):
    """A version is missing at either end or in the middle, or there is one too many."""
    text = CI.read_text(encoding="utf-8").replace('["3.11", "3.12", "3.13"]', pythons)
    assert versions_complaint(load(text)) != ""


@pytest.mark.parametrize("path", WORKFLOWS, ids=NAMES)
def test_every_job_has_a_python_that_is_tested(path):
    """No job uses whatever Python the machine has."""
    tested = load(CI.read_text(encoding="utf-8"))["jobs"]["test"]["strategy"]["matrix"]["python"]
    for job in load(path.read_text(encoding="utf-8"))["jobs"].values():
        (python,) = [
            step["with"]["python-version"]
            for step in job["steps"]
            if "setup-python" in step.get("uses", "")
        ]
        assert python in [*tested, "${{ matrix.python }}"]


def test_the_oldest_torch_is_the_one_that_pyproject_names():
    """The oldest torch is tested with the oldest Python."""
    (claimed,) = [
        needed
        for needed in PROJECT["optional-dependencies"]["assignment"]
        if needed.startswith("torch")
    ]
    job = load(CI.read_text(encoding="utf-8"))["jobs"]["oldest"]
    assert f"TORCH={claimed.replace('>=', '==')}.0 " in job["steps"][-1]["run"]
    assert job["steps"][1]["with"]["python-version"] == PROJECT["requires-python"].removeprefix(
        ">="
    )


# --- commands


def commands(script):
    """The commands of a script as lists of words.

    The operators that join commands, and redirections to files, are left out.
    """
    for line in script.splitlines():
        words = shlex.shlex(line, posix=True, punctuation_chars=True)
        words.whitespace_split = True
        for joined, group in groupby(words, lambda word: set(word) <= set("|&;")):
            if not joined:
                command = list(group)
                yield command[: command.index(">>")] if ">>" in command else command


def trouble(command):
    """Return why a command could not run, or an empty string."""
    match command:
        case ["timeout", *more]:
            return trouble(
                more[next(i for i, word in enumerate(more) if not word.startswith("-")) + 1 :]
            )
        case ["make", *words] | ["sudo", "-E", "make", *words]:
            return trouble_of_make(words)
        case ["sudo", "sysctl", _]:
            advised = [line for *_, line in bubblewrap.FORBIDDING]
            return (
                ""
                if shlex.join(command) in advised
                else f"the sandbox does not ask for {shlex.join(command)}"
            )
        case ["python", "-m", "pip", "install", "."]:
            return ""
        case [".venv/bin/grader", name, *words]:
            return trouble_of_options(("-m", "grader", name), words)
        case ["python", "-m", "assignment", name, *words]:
            return trouble_of_options(("-m", "assignment", name), words)
        case [".venv/bin/python", script, *words]:
            return trouble_of_options((script,), words)
        case [name, *_] if name in OF_THE_SYSTEM:
            return ""
    return f"not a command of ours: {shlex.join(command)}"


def trouble_of_make(words):
    """Report a target that make does not have, or a variable that the Makefile does not use."""
    for name, value, _ in (word.partition("=") for word in words):
        if value and f"$({name})" not in MAKEFILE:
            return f"the Makefile has no {name}"
    done = subprocess.run(
        ["make", "-n", *words], cwd=ROOT, capture_output=True, text=True, timeout=600
    )
    return done.stderr.strip() if done.returncode else ""


def trouble_of_options(program, words):
    """Report a program without a working --help, or an option that its help does not name."""
    done = help_of(program)
    if done.returncode:
        return done.stderr.strip() or done.stdout.strip()
    missing = [
        word for word in words if word.startswith("--") and not re.search(rf"{word}\b", done.stdout)
    ]
    return f"{' '.join(program)} has no {missing[0]}" if missing else ""


@functools.cache
def help_of(program):
    """Run one of our programs with --help."""
    plain = {**os.environ, "NO_COLOR": "1", "TERM": "dumb", "COLUMNS": "200"}
    return subprocess.run(
        [python(), *program, "--help"],
        cwd=ROOT,
        env=plain,
        capture_output=True,
        text=True,
        timeout=600,
    )


@pytest.mark.parametrize("path", WORKFLOWS, ids=NAMES)
def test_every_command_of_a_workflow_exists(path):
    """Each command is a target of the Makefile, or one of our programs with options that it has."""
    scripts = [
        step["run"] for step in steps(load(path.read_text(encoding="utf-8"))) if "run" in step
    ]
    assert scripts != []
    assert [
        found for script in scripts for command in commands(script) if (found := trouble(command))
    ] == []


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("make chekc", "No rule to make target 'chekc'"),
        ("make test PYTHN=python", "the Makefile has no PYTHN"),
        ("make test | curl -T - example.org", "not a command of ours: curl"),
        (
            ".venv/bin/grader valdate --matrix a.md",
            "there is no command valdate; did you mean validate?",
        ),
        (".venv/bin/grader validate --matrx a.md", "-m grader validate has no --matrx"),
        (".venv/bin/python scripts/none.py a", "No such file"),
        (
            ".venv/bin/python scripts/full_marks.py --all a.json",
            "scripts/full_marks.py has no --all",
        ),
        ("timeout 10m python -m assignment chck || test $? = 1", "invalid choice: 'chck'"),
        (
            "timeout --signal=INT 10m python -m assignment check --mardown a.md",
            "-m assignment check has no --mardown",
        ),
        ("sudo sysctl kernel.unprivileged_userns_clone=0", "the sandbox does not ask for"),
        ("pip install --upgrade pip", "not a command of ours"),
    ],
)
def test_a_command_that_does_not_exist_is_noticed(script, said):
    """A target, a variable, a program or an option is misspelt."""
    found = [trouble(command) for command in commands(script)]
    assert any(said in text for text in found), found


@pytest.mark.parametrize("name", ["`exit 9`", "$(shell touch ran)", '"; touch ran; "', "$(exit 9)"])
def test_make_runs_nothing_that_is_in_the_name_of_a_submission(name, tmp_path):
    """Neither make nor the shell changes a name, which students choose: the grader sees it all."""
    grades = f"GRADES={tmp_path}"
    command = ["make", "-f", ROOT / "Makefile", "-o", tmp_path, "-o", "bubblewrap", grades]
    command += [f"BIN={Path(sys.executable).parent}", "grade", f"SUBMISSION={name}", "ARGS="]
    # `make test` tells its own options to every make below it.
    env = {key: value for key, value in os.environ.items() if "MAKE" not in key}
    done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True)
    assert f"grader: {name} does not exist" in done.stderr
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("example", ["github", "classroom50"])
def test_a_summary_of_the_class_is_text(example):
    """What a student wrote is no link and no picture in Markdown: each line of status is code."""
    text = (ROOT / "examples" / example / "grade.yml").read_text(encoding="utf-8")
    (line,) = [line for line in text.splitlines() if "GITHUB_STEP_SUMMARY" in line]
    assert "| sed 's/^/    /' >>" in line


# --- the linters


def lint(path):
    """The exit codes of the linters of `make workflows`, for one workflow."""
    done = subprocess.run(
        ["make", "-n", "workflows", f"WORKFLOWS={path}"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    lines = [shlex.split(line) for line in done.stdout.splitlines() if line.endswith(str(path))]
    here = [
        [str(Path(sys.executable).parent / Path(program).name), *words] for program, *words in lines
    ]
    return [
        subprocess.run(command, cwd=ROOT, capture_output=True, timeout=600).returncode
        for command in here
    ]


def test_make_workflows_has_nothing_to_say_of_ours():
    """Both linters exit with 0."""
    assert lint(CI) == [0, 0]


@pytest.mark.parametrize(
    ("old", "new", "linter"),
    [
        ("    runs-on: ubuntu-24.04\n", "", 0),
        ("make check PYTHON=python", "echo ${{ github.event.pull_request.title }}", 1),
        ("  contents: read", "  contents: write", 1),
    ],
    ids=["schema", "injection", "permissions"],
)
def test_make_workflows_notices_what_is_wrong(tmp_path, old, new, linter):
    """Either the schema check or zizmor reports the error."""
    path = tmp_path / ".github/workflows/ci.yml"
    path.parent.mkdir(parents=True)
    path.write_text(CI.read_text(encoding="utf-8").replace(old, new), encoding="utf-8")
    assert lint(path)[linter] != 0


# --- the scripts


def run_script(name, *arguments):
    """Run a script and return the completed process."""
    command = [python(), f"scripts/{name}.py", *map(str, arguments)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=600)


def test_the_reference_is_packed_as_a_submission(tmp_path):
    """The zip has every module in the grader's layout, and its folder is created."""
    assert run_script("reference_submission", tmp_path / "new/reference.zip").returncode == 0
    read = submissions.read(tmp_path / "new/reference.zip")
    assert read.sources == courses.sources_in(ROOT / "grader/solutions/reference")
    assert {f"assignment/{module}.py" for module in COURSE.modules} <= set(read.sources)
    assert read.ignored == []


def result(path, **changed):
    """A result with full marks, except for the problems with a given score."""
    points = {problem.id: float(problem.points) for problem in COURSE.problems} | changed
    problems = [
        {"id": name, "score": score, "status": "passed"}
        for name, score in points.items()
        if score is not None
    ]
    total = sum(problem["score"] for problem in problems)
    path.write_text(
        json.dumps({"score": total, "grader": {"device": "cpu+cuda"}, "problems": problems})
    )
    return path


def test_full_marks_are_all_the_points_of_the_course(tmp_path):
    """The script prints one line for a summary."""
    total = sum(problem.points for problem in COURSE.problems)
    done = run_script("full_marks", result(tmp_path / "full.json"))
    assert (done.returncode, done.stdout) == (0, f"# {total} of {total} points, on cpu+cuda\n\n")


@pytest.mark.parametrize(
    ("score", "row"),
    [(3.5, "| linear | 3.5 of 4 | passed |"), (None, "| linear | None of 4 | None |")],
)
def test_less_than_full_marks_is_told_with_the_problem(tmp_path, score, row):
    """Lost points and ungraded problems give exit code 1."""
    done = run_script("full_marks", result(tmp_path / "less.json", linear=score))
    assert done.returncode == 1
    assert row in done.stdout.splitlines()
