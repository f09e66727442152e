"""The command `grader`: run it, and choose the exit code.

Exit codes: 0 graded, whatever the score; 1 a check did not hold; 2 a usage error or a submission that is refused; 3 a fault
of the grader; 130 interrupted by Ctrl-C, 143 by SIGTERM. Files are written before anything is printed, so whoever stops
reading (`| head`) changes neither them nor the code.

What takes time to import is imported once signals are watched.
"""

import atexit
import os
import sys
import traceback
from contextlib import suppress

from grader import files, interrupts
from grader.errors import CourseFault, GraderFault, ReleaseRefused, UsageError


def main() -> None:
    """Run the command line; a user's mistake is one line on stderr, never a traceback."""
    interrupts.watch()
    code, text = 0, ""
    with suppress(KeyboardInterrupt):
        _open_streams()
        code, text = _run()
    interrupts.no_more()
    number = interrupts.seen()
    if number:
        code, text = 128 + number, f"grader: interrupted; {_what_was_written()}"
    with suppress(OSError):
        print(text, file=sys.stderr, end="\n" if text else "", flush=True)
    if number:
        atexit._run_exitfuncs()
        os._exit(
            code
        )  # Python would kill itself by SIGINT where one came in the middle of an `exec`
    sys.exit(code)


def _run() -> tuple[int, str]:
    """Run the command; its exit code, and what to say of how it ended."""
    try:
        from grader.commands import app

        app()
    except SystemExit as e:  # how typer ends
        return (e.code if isinstance(e.code, int) else 0 if e.code is None else 1), ""
    except UsageError as e:
        return 2, f"grader: {e}"
    except ReleaseRefused as e:
        return 1, f"grader: nothing was written: {e}"
    except CourseFault as e:
        return 3, f"grader: this is a fault of the course, and of no submission: {e}"
    except GraderFault as e:
        return 3, f"grader: this is a fault of the grader or of this machine: {e}"
    except Exception:
        return (
            3,
            f"{traceback.format_exc()}grader: this is a fault of the grader; please report it with the lines above",
        )
    return 0, ""


def _what_was_written() -> str:
    return f"{files.written[-1]} is complete" if files.written else "nothing was written"


def _open_streams() -> None:
    """Have something on descriptors 0, 1 and 2, or the next file to be opened would be stdout; print any character."""
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest number that is free
    if sys.stderr is None:
        sys.stderr = open(2, "w", closefd=False)  # noqa: SIM115  open for as long as the process
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
