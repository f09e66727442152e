"""The commands, options and files that the documents name exist."""

import re

import pytest
import typer

from grader.commands.cli import command_line
from grader.course import policies

DOCUMENTS = (
    "README.md",
    "CONTRIBUTING.md",
    "docs/class.md",
    "docs/cluster.md",
    "docs/where_to_run.md",
)
FENCED = re.compile(r"^```.*?^```$", re.DOTALL | re.MULTILINE)
CALL = re.compile(r"^(?:srun .*)?(?:\.venv/bin/)?grader ([a-z]+)(.*)$")


def calls(text):
    """Every call of the grader in code blocks, as (line, command, options)."""
    lines = [line for block in FENCED.findall(text) for line in block.splitlines()]
    lines += re.findall(r"`([^`\n]+)`", FENCED.sub("", text))
    found = [(line, CALL.match(line)) for line in lines]
    return [(line, m[1], re.findall(r"--[a-z-]+", m[2].split("#")[0])) for line, m in found if m]


@pytest.mark.parametrize("document", DOCUMENTS)
def test_each_command_and_option_exists(root, document):
    """A reader can run each call in a document as it is printed."""
    commands = typer.main.get_command(command_line()).commands
    found = calls((root / document).read_text())
    assert found
    unknown = [line for line, command, _ in found if command not in commands]
    assert unknown == []
    for line, command, options in found:
        known = {name for parameter in commands[command].params for name in parameter.opts}
        assert set(options) <= known | {"--help"}, line


OTHERS = ("ARCHITECTURE.md", "benchmarks/README.md", "docs/speed.md")


@pytest.mark.parametrize("document", [*DOCUMENTS, *OTHERS])
def test_each_file_exists(root, document):
    """A reader finds every file and folder that a document names by its path."""
    folders = "assignment|benchmarks|docs|examples|grader|handout|kit|scripts|tests"
    named = re.findall(rf"`((?:{folders})/[\w./-]+)`", (root / document).read_text())
    assert [path for path in named if not (root / path).exists()] == []


def test_the_example_of_a_policy_is_one(root, tmp_path):
    """Its keys and values are valid."""
    (example,) = re.findall(r"```toml\n(.*?)```", (root / "docs/class.md").read_text(), re.DOTALL)
    (tmp_path / "policy.toml").write_text(example)
    got = policies.load(tmp_path / "policy.toml")
    assert (got.per_cent_a_day, got.late_days, got.cap) == (10, 2, 50)
    assert set(got.deadlines) == {"default", "evening"}
