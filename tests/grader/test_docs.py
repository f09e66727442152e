"""The commands, options and files that the documents name exist."""

import ast
import inspect
import re

import pytest
import typer

from grader.classroom import canvas_push
from grader.classroom.removable import ray_cluster
from grader.commands.cli import command_line
from grader.course import late_policy
from grader.proof.course_checks import LEAST_HARM
from grader.proof.result_matrix import MOST_FOR_CHECKS
from grader.proof.trial_kinds import DECLINABLE, MOST_OF_CHECKS
from grader.sandbox import gpu_readings
from grader.sandbox.levels import TRIED

PAGES = ("class", "cluster", "gpu", "own_course", "platforms", "where_to_run")
DOCUMENTS = ("README.md", "CONTRIBUTING.md", *(f"docs/{name}.md" for name in PAGES))
WORKFLOWS = ("examples/github/grade.yml", *(f".github/workflows/{n}.yml" for n in ("ci", "gpu")))
FENCED = re.compile(r"^```.*?^```$", re.DOTALL | re.MULTILINE)
CALL = re.compile(r"^(?:srun .*)?(?:\.venv/bin/)?grader ([a-z-]+)(.*)$")


def calls(text):
    """Every call of the grader in code, as (line, command, options)."""
    lines = [line for block in FENCED.findall(text) for line in block.splitlines()]
    lines += re.findall(r"`([^`\n]+)`", FENCED.sub("", text))
    lines += re.findall(r"^ +(?:run: )?(\S.*)", text, re.MULTILINE)
    found = [(line, CALL.match(line)) for line in lines]
    return [(line, m[1], re.findall(r"--[a-z0-9-]+", m[2].split("#")[0])) for line, m in found if m]


# What a document says of a constant of the program.
NUMBERS = {
    "docs/class.md": [
        f"push at least {canvas_push.SETTLES.seconds // 60} minutes later",
    ],
    "docs/cluster.md": [{3: "After three deaths in a row"}[ray_cluster.DEATHS]],
    "docs/where_to_run.md": [f"after {gpu_readings.GIVE_BACK_SECONDS:.0f} s at most"],
}


@pytest.mark.parametrize("document", NUMBERS)
def test_each_number_is_the_programs(root, document):
    text = " ".join((root / document).read_text().split())
    assert [said for said in NUMBERS[document] if said not in text] == []


@pytest.mark.parametrize("document", [*DOCUMENTS, *WORKFLOWS])
def test_each_command_and_option_exists(root, document):
    commands = typer.main.get_command(command_line()).commands
    found = calls((root / document).read_text())
    assert found
    unknown = [line for line, command, _ in found if command not in commands]
    assert unknown == []
    for line, command, options in found:
        known = {name for parameter in commands[command].params for name in parameter.opts}
        assert set(options) <= known | {"--help"}, line


OTHERS = ["ARCHITECTURE.md", "SECURITY.md", "benchmarks/README.md", "docs/handout.md"]
OTHERS += ["examples/classroom50/README.md"]


@pytest.mark.parametrize("document", [*DOCUMENTS, *OTHERS, *WORKFLOWS])
def test_each_file_exists(root, document):
    folders = "assignment|benchmarks|docs|examples|grader|handout|kit|scripts|tests"
    text = (root / document).read_text()
    named = re.findall(rf"(?:`|python )((?:{folders})/[\w./-]+)(?=[` ])", text)
    assert [path for path in named if not (root / path).exists()] == []


def test_the_example_of_a_policy_is_one(root, tmp_path):
    (example,) = re.findall(r"```toml\n(.*?)```", (root / "docs/class.md").read_text(), re.DOTALL)
    (tmp_path / "policy.toml").write_text(example)
    got = late_policy.load(tmp_path / "policy.toml")
    assert (got.per_cent_a_day, got.late_days, got.cap) == (10, 2, 50)
    assert set(got.deadlines) == {"default", "evening"}


def test_the_promises_of_security_are_those_that_are_checked(root):
    """SECURITY.md lists what `grader isolation` prints, and names attacks that exist."""
    text = " ".join((root / "SECURITY.md").read_text().split())
    for level in TRIED.values():
        tree = ast.parse(inspect.getsource(type(level)))
        keys = [key for node in ast.walk(tree) if isinstance(node, ast.Dict) for key in node.keys]
        checked = [key.value for key in keys if isinstance(key, ast.Constant)]
        assert len(checked) >= 6
        assert [promise for promise in checked if promise not in text] == []
    listed = text.split("## Incidents")[1]
    attacks = re.findall(r"`(\w+)`", listed.replace("`repr`", ""))
    assert len(attacks) > 15
    known = "".join(path.read_text() for path in (root / "tests/grader/attacks").glob("*.py"))
    assert [name for name in attacks if f"# %% {name}\n" not in known] == []


def test_every_requirement_that_can_be_declined_is_explained(root):
    """A course's author finds its name in a table, with what is asked."""
    text = (root / "docs" / "own_course.md").read_text()
    assert [*sorted(DECLINABLE)] == sorted(re.findall(r"^\| `(\w+)` \|", text, re.MULTILINE))
    for share in (MOST_OF_CHECKS, MOST_FOR_CHECKS, LEAST_HARM):
        assert f" {100 * share:g} % of " in text
