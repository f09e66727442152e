"""The built handout, built once for all processes of a test run."""

import subprocess
from pathlib import Path

from filelock import FileLock

from tests.grader.warm_python import python

ROOT = Path(__file__).resolve().parents[2]


def built_once(tmp_path_factory, *, pdf):
    """The folder that the command writes: the site, and the PDF if requested.

    All pytest-xdist processes share one folder, and the first process that needs it builds.
    """
    base = tmp_path_factory.getbasetemp()
    common = base.parent if base.name.startswith("popen-") else base
    name = "handout" if pdf else "handout-without-pdf"
    command = [python(), "-m", "handout.site", "--out", str(common / name)]
    with FileLock(common / f"{name}.lock"):
        if not (common / f"{name}.done").exists():
            command += [] if pdf else ["--no-pdf"]
            done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)
            assert done.returncode == 0, done.stderr
            (common / f"{name}.done").touch()
    return common / name
