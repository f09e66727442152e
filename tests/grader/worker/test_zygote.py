"""What the zygote does before its first fork."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
# What every child does before it runs student code.
IN_A_NEW_INTERPRETER = """
import random, sys
import numpy as np
import torch
from grader.worker import leftovers, zygote

zygote.import_slow_packages([])
before = set(sys.modules)
assert leftovers.changed(leftovers.surroundings()) == []
random.seed(0)
np.random.seed(0)
torch.manual_seed(0)
print(sorted(set(sys.modules) - before))
"""


@pytest.mark.slow
def test_a_child_need_not_import_what_every_child_needs() -> None:
    """Each of a thousand children would otherwise import it anew."""
    ran = subprocess.run(
        [sys.executable, "-c", IN_A_NEW_INTERPRETER],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert (ran.stdout, ran.returncode) == ("[]\n", 0), ran.stderr
