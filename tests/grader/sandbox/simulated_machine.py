"""Run programs on the simulated machine of scripts/gpu, which has one GPU."""

import shutil
import sys
from pathlib import Path

import pytest

from tests.grader.processes import ran

ROOT = Path(__file__).resolve().parents[3]
SIMULATED = ROOT / "scripts" / "gpu" / "simulated.py"
needs_a_compiler = pytest.mark.skipif(
    shutil.which("cc") is None, reason="the simulated driver needs a C compiler"
)


def run(*words, cwd=ROOT):
    """Run a Python command on the simulated machine; return the completed process."""
    return ran([sys.executable, SIMULATED, sys.executable, *words], cwd=cwd)
