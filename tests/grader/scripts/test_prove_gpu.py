"""scripts/prove_gpu.py, rehearsed on the simulated GPU, and what scripts/pack_gpu.py packs."""

import os
import re
import subprocess
from pathlib import Path

import pytest

from scripts import pack_gpu
from tests.grader.processes import ran
from tests.grader.sandbox.simulated_machine import ROOT, needs_a_compiler, run
from tests.grader.warm_python import python

pytestmark = pytest.mark.slow

PROVE = ("-m", "pytest", "scripts/prove_gpu.py", "-s", "-p", "no:cacheprovider")


@pytest.mark.proof
@pytest.mark.xdist_group("simulated gpu")
@needs_a_compiler
def test_everything_is_shown_on_the_simulated_gpu():
    """The box, NVML and the commands are real; none hangs, as one that waits for its own turn."""
    done = run(*PROVE)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Simulated GPU" in done.stdout
    assert "GPU's problems, 7 tests\n" in done.stdout
    assert re.search(r"\n=+ \d+ passed, 1 skipped in ", done.stdout)


@pytest.mark.skipif(Path("/dev/nvidiactl").exists(), reason="this machine has a GPU")
def test_without_a_gpu_the_packed_command_says_so(tmp_path):
    """A missing device is neither a failure nor a skipped test. What was packed is imported."""
    (tmp_path / "tree").symlink_to(ROOT)
    (tmp_path / "packages").mkdir()
    (tmp_path / "packages" / "packed.py").write_text("print('packed')")
    (tmp_path / "prove").write_text(pack_gpu.PROVE)
    (tmp_path / "python3").symlink_to(python())
    path = f"{tmp_path}:{os.environ['PATH']}"
    options = ["-p", "no:cacheprovider", "-p", "packed"]
    done = ran(["sh", tmp_path / "prove", *options], env={**os.environ, "PATH": path})
    assert 3 == done.returncode, done.stdout + done.stderr
    assert "packed" in done.stdout
    assert "Exit: --device cuda: no NVIDIA GPU was found in /dev" in done.stdout
    assert "no tests ran" in done.stdout


def test_the_packed_bubblewrap_needs_nothing_of_the_machine(tmp_path):
    """With an empty environment and none of this machine's libraries, it makes a box."""
    folder = tmp_path / "packed"
    pack_gpu.pack_bubblewrap(folder)
    shown = [f"--ro-bind {folder / name} /{name}" for name in sorted(os.listdir(folder))]
    box = [str(folder / "bwrap"), *" ".join(shown).split(), "/bwrap", "--version"]
    # In a root that has the packed files and a shell alone.
    shell = ["--ro-bind", "/bin/sh", "/bin/sh", "--ro-bind", "/lib64", "/lib64"]
    libraries = [w for d in ("/lib", "/usr/lib") for w in ("--ro-bind-try", d, d)]
    done = subprocess.run([box[0], *shell, *libraries, *box[1:]], env={}, capture_output=True)
    assert (0, True) == (done.returncode, done.stdout.startswith(b"bubblewrap ")), done.stderr
