"""The command `grader`: run the command line and choose the exit code.

Exit codes: 0 graded, whatever the score; 1 a check failed; 2 a usage error or a refused submission;
3 a fault of the grader; 130 interrupted by Ctrl-C, 143 by SIGTERM. Files are written before
anything is printed, so a reader that stops early (`| head`) changes neither the files nor the exit
code.

Slow imports happen only after the signal handlers are installed.
"""

import atexit
import errno
import gc
import os
import sys
import traceback
from contextlib import suppress
from typing import TYPE_CHECKING, NoReturn

from grader import OBJECTS_BETWEEN_COLLECTIONS
from grader.base import files, interrupts, removable
from grader.base.errors import EndsCommand, MachineFault
from kit.safe_text import end_of_line, one_line, printable

if TYPE_CHECKING:
    from grader.commands.app import App


# Errors of the system that mean that the machine has no more space, files or memory.
EXHAUSTED = (
    errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EIO, errno.EMFILE, errno.ENFILE,
    errno.ENOMEM, errno.EAGAIN,
)  # fmt: skip
MOST_CHARACTERS = 20_000  # of a message


def main() -> None:
    """Run the command line; report a user's mistake in one line on stderr, never as a traceback."""
    # Processes of Python that a command starts import nothing from a folder that may be strangers'.
    os.environ["PYTHONSAFEPATH"] = "1"
    interrupts.watch()
    gc.set_threshold(OBJECTS_BETWEEN_COLLECTIONS)
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
    _leave(code)


def command_line(first: str = "") -> "App":
    """All commands, in the order in which `grader --help` lists them.

    If the first word of the command line is a command for one submission, those for a class are
    left out, because importing them takes longer than that command's own code.
    """
    from grader.commands import grade_commands  # noqa: F401  adds its commands
    from grader.commands.shared_options import app

    if first not in {one.callback.__name__ for one in app.registered_commands if one.callback}:
        from grader.commands import class_commands, decision_commands, analysis_commands  # noqa: F401, I001

        removable.modules("grader.commands.removable")
    return app


def _run() -> tuple[int, str]:
    """Run the command; return its exit code and the message to print on stderr."""
    try:
        command_line(next(iter(sys.argv[1:]), ""))()
    except SystemExit as e:  # typer exits this way
        return (e.code if isinstance(e.code, int) else 0 if e.code is None else 1), ""
    except EndsCommand as e:
        text = str(e) if e.several_lines else end_of_line(str(e), MOST_CHARACTERS)
        return e.exit_code, f"grader: {e.opening}{text}"
    except OSError as e:
        if e.errno not in EXHAUSTED:
            return 3, _unexpected()
        place = f": {one_line(str(e.filename), 300)}" if e.filename else ""
        return 3, f"grader: {MachineFault.opening}{e.strerror}{place}"
    except ModuleNotFoundError as e:
        if (e.name or "").partition(".")[0] in ("grader", "kit", "tests"):
            return 3, _unexpected()
        return 3, (
            f"grader: {MachineFault.opening}the package {e.name} is not installed: run "
            f'`{sys.executable} -m pip install "resource-accounting-assignment[grader]"`'
        )
    except Exception:
        return 3, _unexpected()
    return 0, ""


def _unexpected() -> str:
    return (
        f"{printable(traceback.format_exc(), MOST_CHARACTERS)}"
        "grader: this is a fault of the grader; please report it with the lines above"
    )


def _leave(code: int) -> NoReturn:
    """End this process as Python does, except that it does not free what it imported.

    Freeing takes 0.2 s. Python would also kill itself with SIGINT if a SIGINT had arrived in the
    middle of an `exec`.
    """
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            with suppress(OSError, ValueError):  # ValueError: it is closed
                stream.flush()
    os._exit(code)


def _what_was_written() -> str:
    if files.kept:
        return f"the results so far are in {files.kept[-1]}; run the same command again to continue"
    return f"{files.written[-1]} is complete" if files.written else "nothing was written"


def _open_streams() -> None:
    """Open descriptors 0 to 2, lest a file take their numbers; let any character be printed."""
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest free number
    if sys.stderr is None:
        sys.stderr = open(2, "w", closefd=False)  # noqa: SIM115  open as long as the process lives
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
