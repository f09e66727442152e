"""A student's module is run as a program: in the box, in this process, and as hostile code."""

import re
import textwrap

import pytest

from grader.base.errors import Crashed, NotAttempted, PolicyBroken, Raised, StudentFault
from grader.grading.local_student import LocalSession
from kit.student_programs import run_program
from tests.grader.in_the_sandbox import NEEDS_LANDLOCK, session, warm

ECHO = """
    import pathlib, subprocess, sys

    def main():
        print(sys.argv[1:], __name__, pathlib.Path.cwd() != pathlib.Path(__file__).parent)
        print(sys.stdin.readline().strip(), repr(input()), len(sys.stdin.read()))
        print(pathlib.Path("given/a.txt").read_text(), file=sys.stderr)
        pathlib.Path("made.bin").write_bytes(b"\\0\\1")
        sys.stdout.flush()
        subprocess.run(["/bin/sh", "-c", "echo from a shell"]) if "shell" in sys.argv else None
        sys.exit(3)

    if __name__ == "__main__":
        main()
"""
INPUTS = {
    "module": "m",
    "args": ["-x", "a b"],
    "stdin": "one\ntwo\nthree",
    "files": {"given/a.txt": "é"},
    "keep": ["made.bin", "no.bin"],
}
SAID = {
    "exit": 3,
    "stdout": "['-x', 'a b'] __main__ True\none 'two' 5\n",
    "stderr": "é\n",
    "files": {"made.bin": b"\0\1"},
}


def ran(box, source, forbidden=(), **inputs):
    with session(box, source, forbidden=[*forbidden]) as made:
        return made.run(run_program, {"module": "m", **inputs})


@warm
@NEEDS_LANDLOCK
def test_it_is_the_same_at_each_level_and_without_a_sandbox(sandbox, plain, box):
    """Arguments, input, files, both outputs and the exit code."""
    for level in (sandbox, plain("landlock")):
        assert ran(level, ECHO, **INPUTS) == SAID
    made = LocalSession(box, {"assignment/m.py": textwrap.dedent(ECHO).encode()})
    assert made.run(run_program, INPUTS) == SAID
    shell = made.run(run_program, {**INPUTS, "args": ["shell"]})
    assert shell["stdout"].endswith("\nfrom a shell\n"), "other processes print there as well"


@warm
@pytest.mark.parametrize(
    ("source", "code", "stdout", "stderr"),
    [
        ("", 0, "", ""),
        ("print('x', end='')", 0, "x", ""),
        ("import sys; sys.exit('no such file')", 1, "", "no such file\n"),
        ("raise SystemExit", 0, "", ""),
        ("raise SystemExit(True)", 1, "", ""),
        ("raise SystemExit(-1)", 255, "", ""),
        ("import sys; sys.stdout.buffer.write(b'\\xff\\r\\n')", 0, "\\xff\n", ""),
        ("import sys; print('x'); sys.stdout.close()", 0, "x\n", ""),
        ("import sys; sys.stdout = None", 0, "", ""),
        ("import os; os.write(1, b'x'); os.write(2, b'y')", 0, "x", "y"),
        ("import os; print('x', flush=True); os.close(1)", 0, "x\n", ""),
        ("import os; os.chdir('/')", 0, "", ""),
    ],
    ids=range(12),
)
def test_what_a_program_can_do_to_its_outputs(sandbox, source, code, stdout, stderr):
    """Whatever it does to them, what it had printed counts; the next run has its own."""
    with session(sandbox, source) as made:
        for _ in range(2):
            found = made.run(run_program, {"module": "m"})
            assert found == {"exit": code, "stdout": stdout, "stderr": stderr, "files": {}}


@warm
@pytest.mark.parametrize(
    ("source", "kind", "said"),
    [
        ("raise NotImplementedError('m: see handout')", NotAttempted, "m: see handout"),
        ("x = 1\nint('a')", Raised, "invalid literal for int"),
        ("import os\nos._exit(0)", Crashed, "exit"),
        ("import os\nos.kill(os.getpid(), 11)", Crashed, "signal 11"),
        ("input()", Raised, "EOF when reading a line"),
        ("breakpoint()\nint('a')", Raised, "invalid literal for int"),
        ("print('x' * 2**30)", StudentFault, ""),
        ("while True: print('x' * 2**20)", StudentFault, ""),
    ],
    ids=range(8),
)
def test_what_ends_a_program_is_the_students(sandbox, source, kind, said):
    """An exception keeps its line; endless output meets the limits of a test."""
    with pytest.raises(kind) as caught:
        ran(sandbox, source)
    assert said in str(caught.value)
    if kind is Raised and "int(" in source:
        assert caught.value.where == "assignment/m.py:2"


@warm
def test_what_is_forbidden_stays_so_in_a_program(sandbox):
    """The tripwire sees a computed name; the test's start of the program is no violation."""
    source = "import json\nprint(getattr(json, 'du' + 'mps')(1))\n"
    for name in ("json.dumps", "json"):
        with pytest.raises(PolicyBroken, match=f"calls {re.escape(name)}"):
            ran(sandbox, source, [name])
    others = ["json.loads", "no_such_package", "json.tool"]
    assert ran(sandbox, source, others)["stdout"] == "1\n"
