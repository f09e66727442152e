"""List the entries of a folder, a .zip or a .tar.gz at a bounded cost.

Numbers in an archive are untrusted, so each is capped before any work depends on it: the number of
entries, the length of a path, the size of a table of contents, the unpacked size of a stream. This
module parses .tar itself, because `tarfile` reads as many bytes as a header claims, follows sparse
maps, and copies global headers into every member.
"""

import errno
import io
import os
import re
import stat
import struct
import time
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO, NoReturn

from grader.base.errors import SubmissionRefused
from kit.handing_in import MAX_BYTES
from kit.text import printable

MAX_ARCHIVE_BYTES = 64 * 2**20
MAX_ENTRIES = 10_000  # including ignored ones: a student may hand in their .git
MAX_PATH_BYTES = 1024

MAX_DIRECTORY_BYTES = 4 * 2**20  # a zip's table of contents: 400 bytes for each of its entries
MAX_EXTRA_BYTES = 4096  # zipfile takes time quadratic in a field's length

MAX_UNPACKED_BYTES = 256 * 2**20  # for a tar, whose entries cannot be skipped
MAX_GZIP_MEMBERS = 10_000
MAX_HEADER_BYTES = 64 * 2**10  # for one extended header of an entry
MAX_HEADERS_BYTES = 8 * 2**20  # for all of them together: 800 bytes per entry
# Charged for each record of an extended header, in addition to its text.
RECORD_BYTES = 32
# CPU time for unpacking. Unpacking 256 MiB from an ordinary program takes half of this.
UNPACK_SECONDS = 1.5
SINGLE_FILES = (".py", ".ipynb")  # that are read without an archive around them
PIECE = 64 * 2**10
BLOCK = 512  # the block size of a tar


class Damaged(Exception):
    """An archive that violates its format; the text says how."""


DAMAGED = (Damaged, zipfile.BadZipFile, zlib.error, EOFError)


@contextmanager
def _by_zipfile() -> Iterator[None]:
    """Call the library that reads zips: whatever else it raises, the file is `Damaged`."""
    try:
        yield
    except (SubmissionRefused, _TooMany, OSError, MemoryError, RuntimeError, *DAMAGED):
        raise
    except Exception as e:
        raise Damaged(str(e) or type(e).__name__) from e


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
    with _by_zipfile():
        is_zip = zipfile.is_zipfile(file)
    file.seek(0)
    if is_zip:
        return _at_most(in_zip(file), path)
    if file.read(2) != b"\x1f\x8b":
        if path.suffix in SINGLE_FILES:
            return [on_disk(path, path.parent, real.parent)]
        raise SubmissionRefused(_not_an_archive(path))
    file.seek(0)
    return _at_most(in_tar(_UnpackedStream(_gunzipped(file))), path)


def _not_an_archive(path: Path) -> str:
    """Say why a file cannot be a submission; a broken download keeps the name of an archive."""
    if path.suffix.lower() in (".zip", ".gz", ".tgz"):
        return f"{path} is damaged or incomplete: its content is neither a zip nor a tar.gz"
    return f"{path} is not a submission: expected a folder, a .zip, a .tar.gz, a .py or an .ipynb"


def _at_most(found: Iterator[SubmittedItem], path: Path) -> list[SubmittedItem]:
    """Collect the entries in a list; stop reading the generator at the limit."""
    listed: list[SubmittedItem] = []
    try:
        for entry in found:
            listed.append(entry)
            if len(listed) > MAX_ENTRIES:
                raise _TooMany
    except _TooMany:
        raise SubmissionRefused(f"{path} has more than {MAX_ENTRIES} entries") from None
    return listed


class _TooMany(Exception):
    """There are more entries than the limit."""


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
    bytes_in_all = os.fstat(file.fileno()).st_size
    checked = _CheckedZip(file)
    with _by_zipfile():
        archive = zipfile.ZipFile(checked)
    checked.is_open = True
    if sum(info.compress_size for info in archive.infolist()) > bytes_in_all:
        raise Damaged("its entries overlap")
    for info in archive.infolist():
        if not info.filename:
            raise Damaged("an entry has no name")
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
    if info.compress_size > info.file_size + info.file_size // 4 + 1024:
        raise Damaged(f"{printable(info.filename, 100)} takes more space packed than unpacked")
    with _by_zipfile():
        return archive.open(info)


class _CheckedZip:
    """A zip file for `zipfile` that checks the table of contents first.

    `zipfile` reads the whole table and creates an object for each entry, whatever the table claims.
    Wherever it looks for the table, the bytes pass through `read`.
    """

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self.is_open = False  # whether zipfile has read the table
        self.seek, self.tell, self.seekable, self.close = (
            file.seek,
            file.tell,
            file.seekable,
            file.close,
        )

    def read(self, size: int = -1) -> bytes:
        if self.is_open:
            return self._file.read(size)
        if size > MAX_DIRECTORY_BYTES:
            raise _TooMany
        data = self._file.read(size)
        if data.startswith(b"PK\1\2"):
            _check_directory(data)
        return data


def _check_directory(data: bytes) -> None:
    """Walk over a zip's table of contents without storing any of it."""
    at = count = 0
    while at + 46 <= len(data):
        name, extra, comment = struct.unpack_from("<HHH", data, at + 28)
        if (count := count + 1) > MAX_ENTRIES:
            raise _TooMany
        path = data[at + 46 : at + 46 + name]
        if name > MAX_PATH_BYTES:
            raise _too_long(path)
        if extra > MAX_EXTRA_BYTES:
            raise Damaged(f"an entry has an extra field of {extra} bytes")
        at += 46 + name
        for one in (path, *_paths_in(data[at : at + extra])):
            if b"\0" in one:
                raise _with_null(one)  # zipfile would cut it there
        at += extra + comment


def _paths_in(extra: bytes) -> Iterator[bytes]:
    """The paths in an extra field of a zip: its records 0x7075, which replace the entry's path."""
    at = 0
    while at + 4 <= len(extra):
        kind, size = struct.unpack_from("<HH", extra, at)
        if kind == 0x7075:
            yield extra[at + 9 : at + 4 + size]  # after a version and a checksum
        at += 4 + size


def _with_null(path: bytes) -> Damaged:
    start = printable(path[:40].decode(errors="replace"), 60)
    return Damaged(f"the path '{start}' contains a null byte")


def _too_long(path: bytes) -> SubmissionRefused:
    start = printable(path[:40].decode(errors="replace"), 60)
    return SubmissionRefused(f"the path {start!r}… is longer than {MAX_PATH_BYTES} bytes")


# --- a tar.gz -------------------------------------------------------------------------------------

# Types of headers that describe later entries; only x, X and L matter here.
EXTENDED = (b"x", b"X", b"g", b"L", b"K")
FILES = (b"0", b"\0", b"7")
KINDS = {b"1": "link", b"2": "link", b"5": "folder"}
WITHOUT_CONTENT = (b"1", b"2", b"3", b"4", b"5", b"6")
OCTAL = re.compile(rb"[0-7]+")
SPARSE = "it contains a sparse file, which programs write only on request"


def _gunzipped(file: IO[bytes]) -> Iterator[bytes]:
    """Unpack a gzip file in pieces of at most 64 KiB; its checksum is checked at the end."""
    packed = file.read(PIECE)
    seconds = 0.0
    for _ in range(MAX_GZIP_MEMBERS):
        inflate = zlib.decompressobj(wbits=31)
        while not inflate.eof:
            packed = packed or file.read(PIECE)
            if not packed:
                raise EOFError("it ends too early")
            started = time.thread_time()
            piece = inflate.decompress(packed, PIECE)
            if (seconds := seconds + time.thread_time() - started) > UNPACK_SECONDS:
                raise SubmissionRefused(
                    "the archive takes too long to unpack: "
                    "ordinary programs do not pack this way; hand in a .zip"
                )
            yield piece
            packed = inflate.unconsumed_tail
        packed = inflate.unused_data.lstrip(b"\0")
        while not packed and (more := file.read(PIECE)):
            packed = more.lstrip(b"\0")  # tape archives are padded with zeros
        if not packed:
            return
    raise Damaged(f"it is a gzip file of more than {MAX_GZIP_MEMBERS} parts")


class _UnpackedStream:
    """Reads pieces of bytes as one stream, up to MAX_UNPACKED_BYTES in total."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self._pieces = pieces
        self._piece = memoryview(b"")
        self.left = MAX_UNPACKED_BYTES

    def read(self, size: int) -> bytes:
        """The next `size` bytes."""
        return b"".join(self._next(size))

    def skip(self, size: int) -> None:
        """Skip the next `size` bytes."""
        for _ in self._next(size):
            pass

    def skip_all(self) -> None:
        """Skip to the end, where the checksum is."""
        for piece in self._pieces:
            self._take(len(piece))

    def at_end(self) -> bool:
        """Whether nothing is left."""
        while not self._piece:
            piece = next(self._pieces, None)
            if piece is None:
                return True
            self._take(len(piece))
            self._piece = memoryview(piece)
        return False

    def _next(self, size: int) -> Iterator[memoryview]:
        if size > self.left + len(self._piece):
            self._take(size)
        while size:
            if self.at_end():
                raise EOFError("it ends too early")
            part, self._piece = self._piece[:size], self._piece[size:]
            size -= len(part)
            yield part

    def _take(self, size: int) -> None:
        self.left -= size
        if self.left < 0:
            raise SubmissionRefused(
                f"the archive unpacks to more than {MAX_UNPACKED_BYTES >> 20} MiB"
            )


@dataclass(frozen=True)
class _Header:
    """The contents of a tar's header block; `type` is one byte."""

    path: bytes
    type: bytes
    size: int


def in_tar(stream: _UnpackedStream) -> Iterator[SubmittedItem]:
    """Yield the entries of a tar; keep the content of possible sources and skip the rest."""
    headers = _Headers(stream)
    room = {"likely": 2 * MAX_BYTES, "possible": MAX_BYTES, "": 0}
    while (header := headers.next()) is not None:
        if len(header.path) > MAX_PATH_BYTES:
            raise _too_long(header.path)
        if b"\0" in header.path:
            raise _with_null(header.path)
        path = header.path.decode("utf-8", "surrogateescape")
        # Programs before 1988 marked a folder this way.
        old_folder = header.type == b"\0" and path.endswith("/")
        kind = (
            "file" if header.type in FILES and not old_folder else KINDS.get(header.type, "special")
        )
        size = 0 if header.type in WITHOUT_CONTENT else header.size
        content: bytes | None = None
        use = _use_of(path)
        if kind == "file" and use and size <= room[use]:
            content = stream.read(size)
            room[use] -= size
        else:
            stream.skip(size)
        stream.skip(-size % BLOCK)
        if kind == "folder" or old_folder:
            kind, path = "folder", path.rstrip("/")
        yield SubmittedItem(path, kind, header.size, partial(_kept, content))
    stream.skip_all()


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


class _Headers:
    """The headers of a tar's entries, with paths and sizes from preceding extended headers."""

    def __init__(self, stream: _UnpackedStream) -> None:
        self._stream = stream
        self._left = MAX_HEADERS_BYTES

    def next(self) -> _Header | None:
        """The next entry's header; None at the end."""
        path: bytes | None = None
        size: int | None = None
        while not self._stream.at_end() and (block := self._stream.read(BLOCK)) != bytes(BLOCK):
            header = _header(block)
            if header.type not in EXTENDED:
                return _Header(
                    header.path if path is None else path,
                    header.type,
                    header.size if size is None else size,
                )
            content = self._content(header.size)
            if header.type == b"L":
                path = content.rstrip(b"\0")
            elif header.type in b"xX":
                for key, value in _pax(content):
                    self._spend(RECORD_BYTES)
                    path = value if key == b"path" else path
                    size = _decimal(value) if key == b"size" else size
        return None

    def _content(self, size: int) -> bytes:
        """The content of an extended header."""
        if size > MAX_UNPACKED_BYTES:
            self._stream.skip(size)  # raises SubmissionRefused
        if size > MAX_HEADER_BYTES:
            raise Damaged(f"an entry has an extended header of {size} bytes")
        self._spend(BLOCK + size)
        content = self._stream.read(size)
        self._stream.skip(-size % BLOCK)
        return content

    def _spend(self, size: int) -> None:
        self._left -= size
        if self._left < 0:
            raise Damaged(f"its extended headers are more than {MAX_HEADERS_BYTES >> 20} MiB")


def _header(block: bytes) -> _Header:
    """Parse a header block and verify its checksum."""
    claimed = _number(block[148:156])
    signed = struct.unpack("148b8x356b", block)
    if claimed not in (256 + sum(block[:148]) + sum(block[156:]), 256 + sum(signed)):
        raise Damaged("invalid header")
    path, prefix, kind = block[:100].split(b"\0")[0], block[345:500].split(b"\0")[0], block[156:157]
    if kind == b"S":
        raise Damaged(SPARSE)
    if block[257:263] == b"ustar\0" and prefix:
        path = prefix + b"/" + path
    return _Header(path, kind, _number(block[124:136]))


def _number(field: bytes) -> int:
    """A number in a header: octal digits or, after a byte of 128, binary."""
    if field[0] == 128:
        return int.from_bytes(field[1:], "big")
    digits = field.split(b"\0")[0].strip() or b"0"
    if not OCTAL.fullmatch(digits):
        raise Damaged("invalid header")
    return int(digits, 8)


def _pax(content: bytes) -> Iterator[tuple[bytes, bytes]]:
    """The records of a pax header: "LENGTH KEY=VALUE" and a line end.

    LENGTH is the length of the whole record.
    """
    at = 0
    while at < len(content) and content[at]:
        space = content.find(b" ", at, at + 8)
        end = at + _decimal(content[at:space])
        key, equals, value = content[space + 1 : end - 1].partition(b"=")
        if space < 0 or end > len(content) or content[end - 1 : end] != b"\n" or not equals:
            raise Damaged("invalid header")
        if key.startswith(b"GNU.sparse."):
            raise Damaged(SPARSE)
        yield key, value
        at = end


def _decimal(digits: bytes) -> int:
    if not re.fullmatch(rb"[0-9]{1,20}", digits):
        raise Damaged("invalid header")
    return int(digits)
