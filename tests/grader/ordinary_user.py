"""Run a command as an ordinary user, for tests that run as root."""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

NEEDS_ROOT = pytest.mark.skipif(
    os.geteuid() != 0 or not shutil.which("setpriv") or not shutil.which("unshare"),
    reason="only root can become another user",
)
USER = "65534"
# Why no ordinary user can run the tests, or an empty text; filled once, because it imports torch.
REASONS: list[str] = []
# Shows the interpreter where its folder is closed to others: in this mount namespace only.
OPEN = """
mount --bind "$needed" "$kept" && mount -t tmpfs -o mode=755 none "$closed" &&
mkdir -p "$needed" && mount --bind "$kept" "$needed" || exit 1
"""


@contextmanager
def as_an_ordinary_user() -> Iterator[list[str]]:
    """The words to put before a command, which then runs as a user who owns nothing here.

    Skips the test if that is impossible.
    """
    needed = Path(sys.base_prefix).resolve()
    closed = [p for p in (*reversed(needed.parents), needed) if not p.stat().st_mode & 0o001]
    become = f'exec setpriv --reuid {USER} --regid {USER} --clear-groups "$@"'
    with tempfile.TemporaryDirectory() as kept:
        values = f"needed={needed}\nkept={kept}\nclosed={closed[0]}\n" if closed else ""
        script = f"{values}{OPEN if closed else ''}{become}"
        words = ["unshare", "--mount", "sh", "-c", script, "sh"]
        if not REASONS:
            test = [*words, sys.executable, "-c", "import torch, grader, tests.probes"]
            able = subprocess.run(test, capture_output=True, text=True, timeout=600)
            REASONS.append(able.stderr.strip()[-200:] if able.returncode else "")
        if REASONS[0]:
            pytest.skip(f"no ordinary user can run the tests: {REASONS[0]}")
        yield words
