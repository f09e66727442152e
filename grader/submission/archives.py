"""List the entries of a folder, a .zip or a .tar.gz.

Python's own readers open archives. They believe what an archive claims, so whoever calls this
module limits the time and the memory of its process, as `reader.py` does.
"""

import errno
import gzip
import io
import os
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO, NoReturn, Self

from grader.base.errors import SubmissionRefused
from kit.handing_in import MAX_BYTES
from kit.safe_text import printable

MAX_ARCHIVE_BYTES = 64 * 2**20
MAX_ENTRIES = 10_000  # including ignored ones: a student may hand in their .git
MAX_PATH_BYTES = 1024
MAX_UNPACKED_BYTES = 256 * 2**20  # for a tar, whose entries cannot be skipped
SINGLE_FILES = (".py", ".ipynb")  # that are read without an archive around them
PIECE = 64 * 2**10
# What is at which byte of an archive that cannot be read, whatever its name ends in.
OTHER_ARCHIVES = {
    (0, b"Rar!"): "a RAR archive",
    (0, b"7z\xbc\xaf"): "a 7z archive",
    (0, b"BZh"): "compressed with bzip2",
    (0, b"\xfd7zXZ"): "compressed with xz",
    (257, b"ustar"): "a tar without gzip",
}


class Damaged(Exception):
    """An archive that violates its format; the text says how."""


DAMAGED = (Damaged, zipfile.BadZipFile, zlib.error, EOFError)


@dataclass(frozen=True)
class SubmittedItem:
    """One item in a submission, before any of it is read.

    `kind` is "file", "folder", "link" or "special".
    """

    path: str
    kind: str
    size: int
    open: Callable[[], IO[bytes]]


def entries(path: Path, stack: ExitStack, *, follow: bool = True) -> list[SubmittedItem]:
    """List everything in the folder or archive at `path`, which stays open as long as `stack`.

    A module or a notebook is listed as the only file of a folder.

    Args:
        path: The folder or archive.
        stack: Keeps an archive open.
        follow: Whether `path` may be a link. It may not if a listing has found no link there: its
            owner, who may be the student, has then made one of it.

    Raises:
        SubmissionRefused: `path` has none of the three formats, or exceeds a limit.
        Damaged: The archive is broken; any other exception in DAMAGED means the same.
    """
    real = real_place(path) if follow else real_place(path.parent) / path.name
    if path.is_dir():
        return _at_most(in_folder(path, real), path)
    if not path.exists():
        raise SubmissionRefused(f"{path} does not exist")
    if not path.is_file():
        raise SubmissionRefused(f"{path} is neither a file nor a folder")
    file = stack.enter_context(_opened(real, path))
    if os.fstat(file.fileno()).st_size > MAX_ARCHIVE_BYTES:
        raise SubmissionRefused(f"{path} is larger than {MAX_ARCHIVE_BYTES >> 20} MiB")
    return _at_most(_in_file(file, path, real), path)


def _in_file(file: IO[bytes], path: Path, real: Path) -> Iterator[SubmittedItem]:
    if zipfile.is_zipfile(file):
        yield from in_zip(file)
        return
    file.seek(0)
    head = file.read(512)
    file.seek(0)
    if head.startswith(b"\x1f\x8b"):
        yield from in_tar(file)
    elif path.suffix in SINGLE_FILES:
        yield on_disk(path, path.parent, real.parent)
    else:
        raise SubmissionRefused(_not_an_archive(path, head))


def _not_an_archive(path: Path, head: bytes) -> str:
    """Say why a file cannot be a submission; a broken download keeps the name of an archive."""
    for (at, begins), kind in OTHER_ARCHIVES.items():
        if head.startswith(begins, at):
            return f"{path} is {kind}: hand in a .zip of the folder assignment/"
    if path.suffix.lower() in (".zip", ".gz", ".tgz"):
        return f"{path} is damaged or incomplete: its content is neither a zip nor a tar.gz"
    return f"{path} is not a submission: expected a folder, a .zip, a .tar.gz, a .py or an .ipynb"


def _at_most(found: Iterator[SubmittedItem], path: Path) -> list[SubmittedItem]:
    """Collect the entries in a list; whatever else the reader raises, the file is `Damaged`."""
    listed: list[SubmittedItem] = []
    try:
        for entry in found:
            listed.append(entry)
            if len(listed) > MAX_ENTRIES:
                raise SubmissionRefused(f"{path} has more than {MAX_ENTRIES} entries")
    except (SubmissionRefused, MemoryError, NotImplementedError, *DAMAGED):
        raise
    except Exception as e:
        if isinstance(e, OSError) and not isinstance(e, gzip.BadGzipFile):
            raise
        raise Damaged(str(e) or type(e).__name__) from e
    return listed


# --- a folder -------------------------------------------------------------------------------------


def in_folder(root: Path, real: Path) -> Iterator[SubmittedItem]:
    """Yield everything inside assignment/, but only the top-level names next to it.

    If there is no such folder, yield everything.

    Args:
        root: The folder.
        real: Its place without links.
    """
    inside: list[Path] = []
    # Unlike Path.is_dir, os.path.isdir is False for a folder that may not be looked into.
    if not os.path.isdir(root / "assignment"):
        inside = [
            top
            for top in sorted(root.iterdir())
            if not top.is_symlink() and os.path.isdir(top / "assignment")
        ]
    base = inside[0] if len(inside) == 1 else root
    place = real / base.relative_to(root)
    if len(inside) > 1:
        # Yield all of them, so that the caller sees several.
        yield from (on_disk(top / "assignment", root, real) for top in inside)
    has_one = inside or os.path.lexists(root / "assignment")
    for top in sorted(base.iterdir()):
        yield on_disk(top, base, place)
        if (top.name == "assignment" or not has_one) and not top.is_symlink() and top.is_dir():
            for folder, folders, files in os.walk(top, onerror=_raise):
                folders[:] = sorted(f for f in folders if f != "__pycache__")
                for name in sorted([*folders, *files]):
                    yield on_disk(Path(folder, name), base, place)


def _raise(error: OSError) -> NoReturn:
    raise error


def real_place(folder: Path) -> Path:
    """The place of a file or folder without links."""
    return Path(os.path.realpath(folder))


def on_disk(path: Path, base: Path, real: Path) -> SubmittedItem:
    """A file or folder on the disk, named relative to a folder; it follows no link.

    Args:
        path: Its path.
        base: The folder.
        real: The folder's place without links.
    """
    found, relative = path.lstat(), path.relative_to(base)
    return SubmittedItem(
        relative.as_posix(),
        _kind(found.st_mode),
        found.st_size,
        lambda: _opened(real / relative, path),
    )


def _opened(place: Path, path: Path) -> IO[bytes]:
    """Open a file where a listing has found it.

    Whoever owns one of the folders on the way can replace it by a link to a file of ours in the
    meantime. So the kernel has to name the file that is open as the listing did.
    """
    try:
        descriptor = os.open(place, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as e:
        if e.errno == errno.ELOOP:
            raise SubmissionRefused(f"{path} became a link while it was being read") from None
        raise OSError(e.errno, e.strerror, os.fspath(path)) from None
    file = os.fdopen(descriptor, "rb")
    is_there = os.readlink(f"/proc/self/fd/{descriptor}") == os.fspath(place)
    if not is_there or not stat.S_ISREG(os.fstat(descriptor).st_mode):
        file.close()
        raise SubmissionRefused(f"{path} was replaced while it was being read")
    return file


def _kind(mode: int) -> str:
    if stat.S_ISREG(mode):
        return "file"
    if stat.S_ISDIR(mode):
        return "folder"
    return "link" if stat.S_ISLNK(mode) else "special"


# --- a zip ----------------------------------------------------------------------------------------


def in_zip(file: IO[bytes]) -> Iterator[SubmittedItem]:
    """The entries in a zip's table of contents; `file` must stay open while entries are read."""
    archive = zipfile.ZipFile(file)
    if sum(info.compress_size for info in archive.infolist()) > os.fstat(file.fileno()).st_size:
        raise Damaged("its entries overlap")
    for info in archive.infolist():
        _check_path(info.orig_filename)
        _check_path(info.filename)
        mode = info.external_attr >> 16
        kind = "folder" if info.is_dir() else _kind(mode) if stat.S_IFMT(mode) else "file"
        yield SubmittedItem(
            info.filename.replace("\\", "/"),
            kind,
            info.file_size,
            partial(_unzipped, archive, info),
        )


def _unzipped(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> IO[bytes]:
    if info.flag_bits & 1:
        raise RuntimeError("it is encrypted")
    if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise NotImplementedError("its compression is not one that zip programs use by default")
    try:
        return archive.open(info)
    except (OSError, NotImplementedError, *DAMAGED):
        raise
    except Exception as e:
        raise Damaged(str(e) or type(e).__name__) from e


def _check_path(path: str) -> None:
    start = printable(path[:40], 60)
    if not path:
        raise Damaged("an entry has no name")
    if len(path.encode(errors="surrogatepass")) > MAX_PATH_BYTES:
        raise SubmissionRefused(f"the path {start!r}… is longer than {MAX_PATH_BYTES} bytes")
    if "\0" in path:  # zipfile would cut it there
        raise Damaged(f"the path '{start}' contains a null byte")


# --- a tar.gz -------------------------------------------------------------------------------------


class _Unpacked(gzip.GzipFile):
    """A gzip file that gives at most MAX_UNPACKED_BYTES."""

    left = MAX_UNPACKED_BYTES

    def read(self, size: int | None = -1) -> bytes:
        """The next bytes, at most `size`."""
        data = super().read(size)
        self.left -= len(data)
        if self.left < 0:
            raise _too_large()
        return data


def _too_large() -> SubmissionRefused:
    return SubmissionRefused(f"the archive unpacks to more than {MAX_UNPACKED_BYTES >> 20} MiB")


class _Entry(tarfile.TarInfo):
    """An entry of a tar. For `tarfile`, a broken header would be the end of the tar."""

    @classmethod
    def fromtarfile(cls, tarfile_: tarfile.TarFile) -> Self:
        try:
            return super().fromtarfile(tarfile_)
        except tarfile.HeaderError as e:
            if type(e).__name__ in ("EOFHeaderError", "EmptyHeaderError"):
                raise
            raise Damaged(str(e)) from None


def in_tar(file: IO[bytes]) -> Iterator[SubmittedItem]:
    """Yield the entries of a tar.gz; keep the content of possible sources and skip the rest."""
    stream = _Unpacked(fileobj=file)
    room = {"likely": 2 * MAX_BYTES, "possible": MAX_BYTES, "": 0}
    with tarfile.open(
        fileobj=stream, mode="r|", bufsize=PIECE, tarinfo=_Entry, encoding="utf-8"
    ) as archive:
        while (info := archive.next()) is not None:
            _check_path(info.name)
            if archive.offset > MAX_UNPACKED_BYTES:  # `tarfile` would try to get there for ever
                raise _too_large()
            content: bytes | None = None
            use = _use_of(info.name)
            if info.isreg() and info.size <= room[use]:
                room[use] -= info.size
                file_in_tar = archive.extractfile(info)
                content = file_in_tar.read() if file_in_tar else b""
            yield SubmittedItem(info.name, _kind_in_tar(info), info.size, partial(_kept, content))
    while stream.read(PIECE):  # the checksum is at the end
        pass


def _kind_in_tar(info: tarfile.TarInfo) -> str:
    if info.isreg():
        return "file"
    if info.isdir():
        return "folder"
    return "link" if info.issym() or info.islnk() else "special"


def _use_of(path: str) -> str:
    """Whether a file is "likely" to be graded, "possible", or "" if it is not.

    A module in an assignment/ folder is likely. Whatever else a submission may consist of has room
    of its own, so that it cannot displace them.
    """
    in_assignment = folder_named_assignment(path) is not None
    if path.endswith(".py") and in_assignment:
        return "likely"
    return "possible" if in_assignment or path.endswith(SINGLE_FILES) else ""


def folder_named_assignment(path: str) -> str | None:
    """The first folder on a path that is named assignment in any case, such as `a/Assignment/`."""
    at = f"/{path.lower()}".find("/assignment/")
    return path[: at + len("assignment/")] if at >= 0 else None


def _kept(content: bytes | None) -> IO[bytes]:
    if content is None:
        raise SubmissionRefused(
            f"the Python files in the archive are more than {2 * MAX_BYTES >> 20} MiB"
        )
    return io.BytesIO(content)
