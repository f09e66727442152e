"""Run programs on the simulated machine of scripts/gpu, which has one GPU."""

import re
import shutil
import sys
from pathlib import Path

import pytest

from tests.grader.processes import ran

ROOT = Path(__file__).resolve().parents[3]
# What comes before a command line that is to run on the simulated machine.
SIMULATED = (sys.executable, ROOT / "scripts" / "gpu" / "simulated.py")
(UUID,) = re.findall(r'UUID\[\] = "(.*)"', (ROOT / "scripts" / "gpu" / "driver.c").read_text())
needs_a_compiler = pytest.mark.skipif(
    shutil.which("cc") is None, reason="the simulated driver needs a C compiler"
)


def run(*words, cwd=ROOT):
    """Run a Python command on the simulated machine; return the completed process."""
    return ran([*SIMULATED, sys.executable, *words], cwd=cwd)
