"""Run programs on the simulated machine of scripts/gpu, which has one GPU."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
SIMULATED = ROOT / "scripts" / "gpu" / "simulated.py"
needs_a_compiler = pytest.mark.skipif(
    shutil.which("cc") is None, reason="the simulated driver needs a C compiler"
)


def run(*words, cwd=ROOT):
    """Run a Python command on the simulated machine; return the completed process."""
    command = [sys.executable, str(SIMULATED), sys.executable, *map(str, words)]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=600)
