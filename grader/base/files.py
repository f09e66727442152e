"""Write files completely or not at all, print text on stdout, and read untrusted files."""

import codecs
import csv
import errno
import io
import os
import stat
import sys
import tempfile
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from grader.base import interrupts
from grader.base.errors import MachineFault, UsageError
from kit.safe_text import one_line

written: list[Path] = []  # the files that this process wrote, in order
kept: list[Path] = []  # gradebooks that this process updates while it runs
_aside: "_Aside | None" = None  # the files of the `together` block that is open
MOST_OF_A_TABLE = 16 * 2**20
MOST_CELLS = 4_000_000  # of a table in which every row is as wide as the first one
MOST_IN_A_CELL = 10_000  # characters
AS_CSV = ": save it as CSV in UTF-8 (in Excel: File, Save As, CSV UTF-8)"
ZIP, OLD_EXCEL = b"PK\x03\x04", b"\xd0\xcf\x11\xe0"  # how .xlsx and .xls begin
# Errors of the system that mean that a command names a place where nothing can be written.
WRONG_PLACE = (
    errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.EEXIST, errno.ENAMETOOLONG, errno.ELOOP,
    errno.EINVAL, errno.EBADF,
)  # fmt: skip


def check_writable(path: Path) -> None:
    """Report at the start, before minutes of work, that a file cannot be written.

    Raises:
        UsageError: It is a folder, or stdout goes to it, or its folder is missing.
        MachineFault: Its folder is read-only.
    """
    folder = _place_of(path).parent
    if path.is_dir():
        raise UsageError(f"{path} cannot be written: it is a folder")
    if not path.absolute().parent.is_dir():
        raise UsageError(f"{path} cannot be written: there is no folder {path.parent}")
    if _is_stdout(path):
        raise UsageError(
            f"{path} cannot be written: stdout goes to this file, and so does the printed report; "
            "name another file"
        )
    if (path.is_file() or not path.exists()) and not os.access(folder, os.W_OK):
        raise MachineFault(f"{path} cannot be written: {folder} is read-only")


def _place_of(path: Path) -> Path:
    """Where a file is written, through links.

    As Linux does by default, this follows no link that another user put into a folder for everybody
    such as /tmp: it would lead to a file that only this user may write.
    """
    with suppress(OSError):
        link, folder = path.lstat(), path.absolute().parent.stat()
        is_for_all = folder.st_mode & stat.S_ISVTX and folder.st_mode & stat.S_IWOTH
        is_other = stat.S_ISLNK(link.st_mode) and link.st_uid not in (os.geteuid(), folder.st_uid)
        if is_for_all and is_other:
            raise UsageError(f"{path} cannot be written: it is a link of another user")
    return Path(os.path.realpath(path))


def check_folder(path: Path) -> None:
    """Report at the start that files cannot be written into a folder, which need not exist yet.

    Raises:
        UsageError: It is a file, or lies in one.
        MachineFault: It is read-only, or cannot be made.
    """
    found = next(one for one in (path.absolute(), *path.absolute().parents) if one.exists())
    if not found.is_dir():
        what = "it" if found == path.absolute() else str(found)
        raise UsageError(f"{path} cannot be made: {what} is a file, not a folder")
    if not os.access(found, os.W_OK):
        raise MachineFault(f"{path} cannot be written: {found} is read-only")


def make_folder(path: Path) -> None:
    """Make a folder, unless it exists already.

    Raises:
        UsageError: The folder cannot have this name.
        MachineFault: The folder cannot be made.
    """
    if _aside is not None:
        _aside.made += [one for one in (path, *path.parents) if not one.exists()]
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as e:
        raise _of(e, f"{path} cannot be made") from None


def _of(error: OSError, what: str) -> Exception:
    """The error to raise: the command named a wrong place, or the machine cannot write there."""
    kind = UsageError if error.errno in WRONG_PLACE else MachineFault
    return kind(f"{what}: {error.strerror}")


def _is_stdout(path: Path) -> bool:
    """Whether stdout goes to this file or pipe; False for a terminal or /dev/null."""
    with suppress(OSError):
        mine, its = os.fstat(1), path.stat()
        return os.path.samestat(mine, its) and not stat.S_ISCHR(its.st_mode)
    return False


def write(path: Path, content: bytes) -> None:
    """Write a file completely or not at all, even if the command or the machine stops halfway.

    Anything other than a regular file (a pipe of the shell, a terminal) is written to directly.

    Raises:
        UsageError: The file cannot have this name.
        MachineFault: The file cannot be written.
        KeyboardInterrupt: The command was interrupted.
    """
    interrupts.stop_if_seen()
    with together():
        assert _aside is not None
        _aside.keep(path, content)


@contextmanager
def together() -> Iterator[None]:
    """Write all files of this block or, if it ends with an error, none of them and no folder.

    Until the block ends, they are in hidden folders next to their places.
    """
    global _aside
    if _aside is not None:  # a part of another block
        yield
        return
    aside = _aside = _Aside()
    try:
        yield
        aside.move()
    finally:
        _aside = None
        with interrupts.held():
            aside.remove()


class _Aside:
    """The files of a `together` block until it ends."""

    def __init__(self) -> None:
        self.made: list[Path] = []  # the folders that the block made
        self._places: dict[Path, Path] = {}  # each file, and the path as the command names it
        self._files: dict[Path, Path] = {}  # the place of each file, and the file
        self._streams: list[tuple[Path, bytes]] = []
        self._folders: dict[Path, tempfile.TemporaryDirectory[str]] = {}

    def keep(self, path: Path, content: bytes) -> None:
        """Keep a file until `move`."""
        place = _place_of(path)
        if path.exists() and not path.is_file() and not path.is_dir():
            self._streams.append((path, content))
            return
        with _named(path), interrupts.held():
            if place.is_dir():
                raise IsADirectoryError(errno.EISDIR, "it is a folder")
            if place.parent not in self._folders:
                self._folders[place.parent] = tempfile.TemporaryDirectory(
                    prefix=".grader-", dir=place.parent
                )
            file = Path(self._folders[place.parent].name, str(len(self._files)))
            with file.open("xb") as f:
                f.write(content)
                f.flush()
                if place.exists():
                    os.fchmod(f.fileno(), stat.S_IMODE(place.stat().st_mode))
                os.fsync(f.fileno())
            self._places[place], self._files[place] = path, file

    def move(self) -> None:
        """Move all files to their places; if one cannot be moved, the others are as before."""
        moved: list[tuple[Path, Path | None]] = []
        with interrupts.held():
            if interrupts.seen():
                return
            for path, content in self._streams:
                with _named(path):
                    path.write_bytes(content)
            try:
                for place, file in self._files.items():
                    with _named(self._places[place]):
                        before = _linked(place, file.with_suffix(".before"))
                        file.replace(place)
                        moved.append((place, before))
            except BaseException:
                for place, before in moved:
                    with suppress(OSError):
                        before.replace(place) if before else place.unlink()
                raise
            for folder in self._folders:
                _sync(folder)
            written.extend([*(path for path, _ in self._streams), *self._places.values()])
            self.made = []

    def remove(self) -> None:
        """Remove what was not moved."""
        for folder in self._folders.values():
            with suppress(OSError):
                folder.cleanup()
        for made in sorted(self.made, reverse=True):
            with suppress(OSError):
                made.rmdir()


def _linked(place: Path, to: Path) -> Path | None:
    """Where the file at a place is still found once the place has another; None if there is none.

    On a file system without hard links, it is found nowhere else, and cannot be brought back.
    """
    try:
        os.link(place, to)
    except FileNotFoundError:
        return None
    except OSError:
        return place
    return to


@contextmanager
def _named(path: Path) -> Iterator[None]:
    """Say which file could not be written."""
    try:
        yield
    except OSError as e:
        raise _of(e, f"{path} cannot be written") from None


def _sync(folder: Path) -> None:
    """Flush the new name to disk too, where the file system supports that."""
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def read(path: Path, *, most: int) -> bytes:
    """Read a file that somebody else wrote, of `most` bytes at most.

    Raises:
        UsageError: The file cannot be read, or is larger.
    """
    try:
        with path.open("rb") as file:
            content = file.read(most + 1)
    except OSError as e:
        why = {errno.ENOENT: "there is no such file", errno.EISDIR: "it is a folder, not a file"}
        said = why.get(e.errno or 0, e.strerror)
        raise UsageError(f"{one_line(str(path), 300)} cannot be read: {said}") from None
    if len(content) > most:
        raise UsageError(f"{one_line(str(path), 300)} is larger than {most >> 20} MiB")
    return content


def toml_of(text: str) -> dict[str, Any]:
    """What a text in TOML says. Its whole numbers have 64 bits; tomllib would take longer ones.

    Raises:
        ValueError: It is not TOML.
    """
    try:
        listed = tomllib.loads(text)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    values: list[Any] = [listed]
    while values:
        one = values.pop()
        if isinstance(one, int) and one.bit_length() > 63:
            raise ValueError("a whole number has more than 64 bits")
        values += one.values() if isinstance(one, dict) else one if isinstance(one, list) else ()
    return listed


def table_text(path: Path) -> str:
    """The text of a table that a spreadsheet or a person wrote as CSV, in UTF-8 or UTF-16.

    Raises:
        UsageError: It cannot be read, or is not text; the message says how to save it as CSV.
    """
    content = read(path, most=MOST_OF_A_TABLE)
    if content.startswith(OLD_EXCEL) or (content.startswith(ZIP) and b"xl/" in content):
        raise UsageError(f"{one_line(str(path), 300)} is an Excel file{AS_CSV}")
    wide = content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    text = decoded(path, content, "utf-16" if wide else "utf-8-sig", advice=AS_CSV)
    if "\0" in text:
        what = f"{one_line(str(path), 300)}:{text.count(chr(10), 0, text.index(chr(0))) + 1}"
        kind = "UTF-16 text without a byte order mark" if "\0" in text[:2] else "not text"
        raise UsageError(f"{what} is {kind}{AS_CSV}")
    return text


def table_rows(
    text: str, where: str, delimiter: str = ",", *, strict: bool = False
) -> Iterator[tuple[int, list[str]]]:
    """The first line and the cells of each record of a table.

    Args:
        where: The table's name, safe to print.
        strict: Whether a quote in the middle of a cell is an error.

    Raises:
        UsageError: It is not CSV, or too large to be a class.
    """
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=strict)
    line, cells, width = 1, 0, 0
    try:
        for row in reader:
            width = width or len(row)
            cells += max(width, len(row), 1)
            if cells > MOST_CELLS:
                raise UsageError(f"{where}:{line}: the table has more than {MOST_CELLS:,} cells")
            if any(len(cell) > MOST_IN_A_CELL for cell in row):
                raise UsageError(
                    f"{where}:{line} has more than {MOST_IN_A_CELL:,} characters in one cell"
                )
            yield line, row
            line = reader.line_num + 1
    except csv.Error as e:
        raise UsageError(f"{where}:{line} is not valid CSV: {one_line(str(e), 200)}") from None


def decoded(path: Path, content: bytes, encoding: str = "utf-8-sig", *, advice: str = "") -> str:
    """The text of a file that was read.

    Raises:
        UsageError: It is not text in this encoding; the message gives the line and the advice.
    """
    try:
        return content.decode(encoding)
    except UnicodeDecodeError as e:
        line = content.count(b"\n", 0, e.start) + 1
        raise UsageError(f"{one_line(str(path), 300)}:{line} is not UTF-8 text{advice}") from None


def say(text: str, *, needed: bool = True) -> None:
    """Print text on stdout. If its reader has gone (`| head`), drop the rest silently.

    Args:
        text: The text to print, including line ends.
        needed: Whether a failure to print (a full disk, a closed stdout) raises an error; if not,
            the failure is reported on stderr.

    Raises:
        UsageError: The text is needed, and stdout is closed.
        MachineFault: The text is needed and could not be printed.
    """
    try:
        if sys.stdout is None:  # stdout was closed before Python started
            raise OSError(errno.EBADF, "stdout is closed")
        sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError:
        _silence()
    except OSError as e:
        _silence()
        error = _of(e, "the report cannot be printed")
        if needed:
            raise error from None
        print(f"grader: {error}", file=sys.stderr)


def _silence() -> None:
    """Redirect stdout to /dev/null, so that text left in its buffer causes no error at exit."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.close(nowhere)
