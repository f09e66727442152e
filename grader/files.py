"""What a command writes: files, whole or not at all, and text on stdout, which may be closed."""

import errno
import os
import secrets
import stat
import sys
from contextlib import suppress
from pathlib import Path

from grader import interrupts
from grader.errors import UsageError

written: list[Path] = []  # by this process, in order


def check_writable(path: Path) -> None:
    """Say now, and not after minutes of work, that a file cannot be written.

    Raises:
        UsageError: It is a folder, or what is printed goes there, or its folder is missing or read-only.
    """
    folder = Path(os.path.realpath(path)).parent
    if path.is_dir():
        raise UsageError(f"{path} cannot be written: it is a folder")
    if not path.absolute().parent.is_dir():
        raise UsageError(f"{path} cannot be written: there is no folder {path.parent}")
    if _is_stdout(path):
        raise UsageError(
            f"{path} cannot be written: stdout goes there, and the report is printed on it; name another file"
        )
    if (path.is_file() or not path.exists()) and not os.access(folder, os.W_OK):
        raise UsageError(f"{path} cannot be written: {folder} is read-only")


def _is_stdout(path: Path) -> bool:
    """Whether a file or a pipe is what stdout goes to; a terminal or /dev/null may well be both."""
    with suppress(OSError):
        mine, its = os.fstat(1), path.stat()
        return os.path.samestat(mine, its) and not stat.S_ISCHR(its.st_mode)
    return False


def write(path: Path, content: bytes) -> None:
    """Write a file whole or not at all, also where the command is interrupted or the machine stops.

    What is no plain file (a pipe of the shell's, a terminal) is written to as it is.

    Raises:
        UsageError: It cannot be written.
        KeyboardInterrupt: The command was interrupted.
    """
    interrupts.stop_if_seen()
    try:
        if path.exists() and not path.is_file():
            path.write_bytes(content)
        else:
            _replace(Path(os.path.realpath(path)), content)
    except OSError as e:
        raise UsageError(f"{path} cannot be written: {e.strerror}") from None
    written.append(path)


def _replace(path: Path, content: bytes) -> None:
    """Write another file beside it, and then put that in its place."""
    partial = path.parent / f".grader-{secrets.token_hex(8)}.partial"
    with interrupts.held():
        try:
            with partial.open("xb") as f:
                f.write(content)
                f.flush()
                if path.exists():
                    os.fchmod(f.fileno(), stat.S_IMODE(path.stat().st_mode))
                os.fsync(f.fileno())
            if not interrupts.seen():
                partial.replace(path)
                _sync(path.parent)
        finally:
            partial.unlink(missing_ok=True)


def _sync(folder: Path) -> None:
    """Have the new name on the disk as well; not every file system can."""
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def say(text: str, *, needed: bool = True) -> None:
    """Print text on stdout. Where its reader has gone (`| head`), the rest is nobody's loss.

    Args:
        text: What to print, line ends included.
        needed: Whether a text that cannot be printed (a full disk, a closed stdout) is an error. Where not, stderr says so.

    Raises:
        UsageError: It could not be printed, and is needed.
    """
    try:
        if sys.stdout is None:  # Python's word for one that was closed before it started
            raise OSError(errno.EBADF, "stdout is closed")
        sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError:
        _silence()
    except OSError as e:
        _silence()
        sentence = f"the report cannot be printed: {e.strerror}"
        if needed:
            raise UsageError(sentence) from None
        print(f"grader: {sentence}", file=sys.stderr)


def _silence() -> None:
    """Let stdout go nowhere, so that what is left in its buffer is no error at the end."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.close(nowhere)
