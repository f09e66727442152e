"""The processes of tests: a warm Python."""

import os
import signal
import subprocess
import sys

import pytest

from tests.grader.processes import ran
from tests.grader.warm_python import python

pytestmark = pytest.mark.slow

PROGRAMS = {
    "an exit code": ["-c", "import sys; sys.exit(7)"],
    "a message as the exit code": ["-c", "raise SystemExit('no')"],
    "an exception": ["-c", "1 / 0"],
    "arguments and paths": ["-c", "import sys; print(sys.argv, sys.path, sys.orig_argv[1:])", "x"],
    "no folder in the path": ["-P", "-c", "import sys; print(sys.path)"],
    "an option that only a new one has": ["-S", "-c", "import sys; print(sys.flags, sys.argv)"],
    "a script": ["script.py", "y"],
    "a module": ["-m", "script", "z"],
    "a signal to itself": ["-c", "import os; os.kill(os.getpid(), 15)"],
    "buffers at the end": ["-c", "import atexit; atexit.register(print, 'end'); print(1, end='')"],
    "all that surrounds it": [
        "-c",
        "import os, sys; print(os.getcwd(), os.umask(0), sys.stdin.read(), "
        "sorted(os.listdir('/proc/self/fd')))",
    ],
    "where it writes": ["-c", "import sys; print(1); print(2, file=sys.stderr)"],
}


@pytest.mark.parametrize("safe", ["", "1"], ids=["", "safe path"])
@pytest.mark.parametrize("arguments", PROGRAMS.values(), ids=PROGRAMS)
def test_it_does_what_python_does(arguments, safe, tmp_path):
    """The exit code and both outputs are the same."""
    (tmp_path / "script.py").write_text("import sys\nprint(__name__, __file__, sys.argv, sys.path)")

    def run(executable):
        done = ran(
            ["sh", "-c", 'umask 27; exec "$@" 5>out', "sh", executable, *arguments],
            cwd=tmp_path,
            env={**os.environ, "PYTHONSAFEPATH": safe},
            input="typed",
        )
        return done.returncode, done.stdout, done.stderr.splitlines()[-1:]

    assert run(sys.executable) == run(python())


def test_a_variable_that_python_reads_at_its_start_is_followed():
    """Such a process is a new one; the others have imported torch already."""
    program = [python(), "-c", "import sys; print('torch' in sys.modules, sys.flags.utf8_mode)"]
    warm = ran(program)
    new = {**os.environ, "PYTHONUTF8": "1"}
    cold = ran(program, env=new)
    assert ("True 0\n", "False 1\n") == (warm.stdout, cold.stdout)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_signal_ends_it_and_its_process(number):
    """The process writes its id and sleeps; a moment after the signal it no longer exists."""
    program = "import os, time; print(os.getpid(), flush=True); time.sleep(60)"
    options = {"stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL, "text": True}
    with subprocess.Popen([python(), "-c", program], **options) as process:
        pid = int(process.stdout.readline())
        process.send_signal(number)
        assert process.stdout.read() == ""  # nobody has the pipe any more
        assert -number == process.wait(60)
    assert pid != process.pid
    assert not os.path.exists(f"/proc/{pid}/exe")
