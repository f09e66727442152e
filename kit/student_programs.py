"""Run a module of the student's as a program, and return what it prints and how it exits.

The module runs as `python -m` would run it, in a new folder, but in this process: so its exceptions
reach the test as those of a function do, with their line, a stub counts as not attempted, and what
its problem forbids is noticed. Handlers of `atexit` do not run.
"""

import os
import runpy
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, chdir, contextmanager, suppress
from pathlib import Path
from typing import IO, Any, TypedDict


class Ran(TypedDict):
    """What `run_program` returns."""

    exit: int
    stdout: str
    stderr: str
    files: dict[str, bytes]


def run_program(
    student: Any,
    *,
    module: str,
    args: Sequence[str] = (),
    stdin: str | bytes = "",
    files: Mapping[str, str | bytes] | None = None,
    keep: Sequence[str] = (),
) -> Ran:
    """Run a module as a program.

    Args:
        student: The student's package; a test passes this function to `student.run`.
        module: The name of the module, such as "wordcount".
        args: The arguments after the program's name.
        stdin: What it reads from its standard input, which then ends.
        files: The files in its folder, by name.
        keep: The names of files to return, if the program has made them.

    Returns:
        The exit code, both outputs, and the files of `keep` that exist. Bytes of an output that are
        not UTF-8 are shown as escapes.
    """
    name = f"{student._package}.{module}"
    # A module that is imported already would not run in a state of its own.
    imported = sys.modules.pop(name, None)
    try:
        with tempfile.TemporaryDirectory() as made, chdir(made):
            for path, content in (files or {}).items():
                _write(Path(path), content)
            with _redirected(stdin) as said:
                code = _exit_code(name, list(args))
            kept = {path: Path(path).read_bytes() for path in keep if Path(path).is_file()}
            return Ran(exit=code, stdout=said["stdout"], stderr=said["stderr"], files=kept)
    finally:
        if imported is not None:
            sys.modules[name] = imported


def _exit_code(name: str, args: list[str]) -> int:
    """Run the module to its end; return its exit code."""
    before = sys.argv
    sys.argv = [name, *args]  # the first is replaced by the module's file
    try:
        runpy.run_module(name, run_name="__main__", alter_sys=True)
    except SystemExit as e:
        if e.code is None or isinstance(e.code, int):
            return int(e.code or 0) & 0xFF  # the system keeps no more
        print(e.code, file=sys.stderr)
        return 1
    finally:
        sys.argv = before
    return 0


def _write(path: Path, content: str | bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)


@contextmanager
def _redirected(stdin: str | bytes) -> Iterator[dict[str, str]]:
    """Redirect the standard files, also for other processes; the dict gets what was printed."""
    said: dict[str, str] = {}
    before = sys.stdin, sys.stdout, sys.stderr
    with ExitStack() as stack:
        files = [stack.enter_context(tempfile.TemporaryFile()) for _ in before]
        files[0].write(stdin.encode() if isinstance(stdin, str) else stdin)
        files[0].seek(0)
        for stream in before[1:]:
            stream.flush()
        for number, file in enumerate(files):
            stack.callback(_put_back, os.dup(number), number)
            os.dup2(file.fileno(), number)
        sys.stdin, sys.stdout, sys.stderr = map(_opened, range(3))
        try:
            yield said
        finally:
            for stream in (sys.stdout, sys.stderr):
                with suppress(Exception):  # the program may have closed or replaced it
                    stream.flush()
            sys.stdin, sys.stdout, sys.stderr = before
            said |= {"stdout": _text(files[1]), "stderr": _text(files[2])}


def _put_back(kept: int, number: int) -> None:
    os.dup2(kept, number)
    os.close(kept)


def _opened(number: int) -> IO[str]:
    errors = "surrogateescape" if number == 0 else "backslashreplace"
    mode = "r" if number == 0 else "w"
    return open(number, mode, encoding="utf-8", errors=errors, closefd=False)


def _text(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode("utf-8", "backslashreplace").replace("\r\n", "\n")
