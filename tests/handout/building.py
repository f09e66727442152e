"""The built handout, built once for all processes of a test run."""

import subprocess
from pathlib import Path

from filelock import FileLock

from handout.site.browser import NoBrowser, executable
from tests.grader.warm_python import python

ROOT = Path(__file__).resolve().parents[2]


def built_once(tmp_path_factory):
    """The folder that the command writes: the site, and the PDF if there is a browser.

    All pytest-xdist processes share one folder, and the first process that needs it builds.
    """
    base = tmp_path_factory.getbasetemp()
    common = base.parent if base.name.startswith("popen-") else base
    folder = common / "handout"
    with FileLock(common / "handout.lock"):
        if not (common / "handout.done").exists():
            command = [python(), "-m", "handout.site", "--out", folder]
            command += [] if has_browser() else ["--no-pdf"]
            done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=600)
            assert done.returncode == 0, done.stderr
            (common / "handout.done").touch()
    return folder


def has_browser():
    """Whether there is a browser to make the PDF with."""
    try:
        executable()
    except NoBrowser:
        return False
    return True
