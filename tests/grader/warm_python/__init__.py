"""An executable that takes Python's arguments but starts at once, for tests that run many commands.

Importing torch costs a process more than a second. This executable asks a server for a process that
is forked after these imports. No file of this repository is imported before the fork, and the
process gets the caller's arguments, environment, folder and open files, so the real command runs.
It differs from a new interpreter in these ways:

- Its parent, session, process group and limits are the server's. The executable passes signals on
  to it, SIGKILL a moment later, and its exit status back.
- All processes of a server have the same hash seed and the same state of numpy's generator.
- A mistake in when the command imports torch does not show, and a traceback begins in the server.

Tests of these therefore run `sys.executable`. So does the executable itself, if it gets an option
or a variable that only a new interpreter can follow.
"""

import atexit
import os
import shlex
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path

from grader.sandbox.visible_files import HUGE_PAGES_OF_MALLOC

from . import client

HERE = Path(__file__).parent


given = ""  # the executable of the process that has started this one, if it shares one


@cache
def python() -> str:
    """The executable; without a given one, the first call starts a server that ends with us."""
    if given:
        return given
    folder = Path(tempfile.mkdtemp(prefix="warm-"))
    address, executable = folder / "requests", folder / "python"
    executable.write_text(
        f"#!{sys.executable} -IS\n{Path(client.__file__).read_text()}\n"
        f"run({sys.executable!r}, {str(address)!r}, {client.for_start(os.environ)!r})\n"
    )
    executable.chmod(0o755)
    environment = {k: v for k, v in os.environ.items() if k not in client.CAN_BE_FOLLOWED}
    server = subprocess.Popen(
        [sys.executable, HERE / "server.py", address, executable],
        env=environment | HUGE_PAGES_OF_MALLOC,
        stdin=subprocess.PIPE,  # the server ends, and removes the folder, when this is closed
        stdout=subprocess.PIPE,
        start_new_session=True,
    )
    atexit.register(server.communicate)
    assert server.stdout is not None
    assert server.stdout.readline() == b"listens\n"
    return str(executable)


def command() -> str:
    """The executable in a shell script, whose environment may lack what the server began with."""
    variables = client.for_start(os.environ).items()
    words = " ".join(f"{name}={shlex.quote(value)}" for name, value in variables)
    return f"exec env {words} {python()}"
