"""`make bench` works: its two commands measure one problem of the course."""

import json
import sys

import pytest

from tests.grader.processes import ran

FIGURES = {
    "single": ("grade / pytest, wall (median)", "grade / pytest, CPU (of medians)"),
    "batch": ("a submission / pytest, CPU (median)",),
}


@pytest.mark.proof
@pytest.mark.parametrize(("name", "few"), [("single", "--rounds=1"), ("batch", "--submissions=2")])
def test_a_benchmark_measures_one_problem(root, tmp_path, name, few):
    """It writes each figure that the README and benchmarks/README.md quote."""
    out = tmp_path / "figures.json"
    script = root / "benchmarks" / f"{name}.py"
    done = ran([sys.executable, script, few, "--only", "lr_schedule", "--json", out])
    assert done.returncode == 0, done.stderr
    figures = json.loads(out.read_text())
    assert [figure for figure in FIGURES[name] if not figures[figure] > 0] == []
