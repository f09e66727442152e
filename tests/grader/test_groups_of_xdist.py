"""Tests that share an expensive fixture have to run in one pytest-xdist worker."""

import os
import re
import subprocess
import sys

import pytest

pytestmark = pytest.mark.slow

FOUR = """
import pytest
@pytest.mark.xdist_group("one")
@pytest.mark.parametrize("i", range(4))
def test_shares(i): pass
"""


def test_a_group_of_tests_runs_in_one_worker(tmp_path):
    """The installed pytest and pytest-xdist respect groups; some pairs silently ignore them."""
    (tmp_path / "test_four.py").write_text(FOUR)
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-n",
        "2",
        "--dist",
        "loadgroup",
        "-v",
        "-p",
        "no:cacheprovider",
    ]
    alone = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST")}
    done = subprocess.run(
        command, cwd=tmp_path, env=alone, capture_output=True, text=True, timeout=600
    )
    assert len(re.findall(r"^\[gw\d\].* PASSED", done.stdout, re.MULTILINE)) == 4, done.stdout
    assert len(set(re.findall(r"^\[(gw\d)\].* PASSED", done.stdout, re.MULTILINE))) == 1, (
        done.stdout
    )
