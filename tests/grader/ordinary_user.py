"""Run a command as an ordinary user, for tests that run as root."""

import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.grader.processes import ran

NEEDS_ROOT = pytest.mark.skipif(
    os.geteuid() != 0 or not shutil.which("setpriv") or not shutil.which("unshare"),
    reason="only root can become another user",
)
USER = "65534"
# Why no ordinary user can run the tests, or an empty text; filled once.
REASONS: list[str] = []
# Shows the interpreter where its folder is closed to others: in this mount namespace only.
OPEN = """
mount --bind "$needed" "$kept" && mount -t tmpfs -o mode=755 none "$closed" &&
mkdir -p "$needed" && mount --bind "$kept" "$needed" || exit 1
"""


@contextmanager
def as_an_ordinary_user() -> Iterator[list[str]]:
    """The words before a command that runs as a user who owns nothing here; or skip the test."""
    needed = Path(sys.base_prefix).resolve()
    closed = [p for p in (*reversed(needed.parents), needed) if not p.stat().st_mode & 0o001]
    become = f'exec setpriv --reuid {USER} --regid {USER} --clear-groups "$@"'
    with tempfile.TemporaryDirectory() as kept:
        values = f"needed={needed}\nkept={kept}\nclosed={closed[0]}\n" if closed else ""
        script = f"{values}{OPEN if closed else ''}{become}"
        words = ["unshare", "--mount", "sh", "-c", script, "sh"]
        if not REASONS:
            test = [*words, sys.executable, "-c", "import pytest, grader, tests.probes"]
            able = ran(test)
            REASONS.append(able.stderr.strip()[-200:] if able.returncode else "")
        if REASONS[0]:
            pytest.skip(f"no ordinary user can run the tests: {REASONS[0]}")
        yield words


def passed_by_an_ordinary_user(*tests: str) -> str:
    """Run these tests, which must pass, as a user who owns nothing here; return the summary."""
    # An earlier test has kept the plugins out of the runs of pytest that grade.
    plugins = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": ""}
    root = Path(__file__).resolve().parents[2]
    with as_an_ordinary_user() as words:
        command = [*words, sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *tests]
        done = ran(command, cwd=root, env=plugins)
    assert 0 == done.returncode, done.stdout[-8000:] + done.stderr
    return done.stdout.splitlines()[-1]
