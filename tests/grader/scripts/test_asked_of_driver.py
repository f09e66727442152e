"""The script that shows what CUDA needs and the landlock level denies, with a program as CUDA."""

import subprocess
import sys

import pytest

from grader.sandbox import ioctls
from tests.grader.warm_python import python

PROGRAM = """
import fcntl
null = open("/dev/null")
for request in {requests}:
    try:
        fcntl.ioctl(null, request)
    except OSError as e:
        print(e.errno)
open("{file}").close()
"""


@pytest.mark.slow
def test_what_the_level_would_deny_is_listed(root):
    """A listed request is not named; the program's own calls have their usual results."""
    listed = ioctls.READ_AND_WRITE | 32 << 16 | ioctls.TYPE | ioctls.OF_THE_GPU["RM_CONTROL"]
    requests = [listed, *ioctls.TRIED.values()]
    program = PROGRAM.format(requests=requests, file="/etc/passwd")
    command = [python(), "-m", "scripts.asked_of_driver", sys.executable, "-c", program]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    assert 1 == done.returncode, done.stderr
    lines = done.stdout.splitlines()
    assert len(requests) == lines.count("25"), "ENOTTY, as without the script"
    asked = [line for line in lines if line.startswith("asked ")]
    assert sorted(f"asked /dev/null for {r:#010x}" for r in ioctls.TRIED.values()) == asked
    assert "opened /etc/passwd" in lines
    assert not any("torch" in line for line in lines)
    assert lines[-1].startswith(f"{len(ioctls.TRIED)} requests and ")


@pytest.mark.slow
def test_without_a_program_it_says_what_to_write(root):
    """Misuse has the exit code of misuse."""
    command = [python(), "-m", "scripts.asked_of_driver"]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    assert 2 == done.returncode
    assert "python -m scripts.asked_of_driver python -c" in done.stderr
