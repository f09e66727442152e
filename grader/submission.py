"""From what a student handed in to the sources that are graded: an allow-list, read once, capped, hashed.

A submission is a folder, a .zip or a .tar.gz with `assignment/*.py` in it, perhaps below one more folder as GitHub makes
them. What is graded is read into memory exactly once and never looked up again by name, so nothing can change after it was
checked. Everything else is left alone and listed. What cannot be an honest mistake (a path that leaves the archive, a link in
the place of a source, a bomb) is refused whole, with one sentence.
"""

import errno
import gzip
import hashlib
import os
import re
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO, NoReturn

from grader.errors import SubmissionRefused
from grader.results import Ignored, SubmissionInfo
from grader.text import printable

MAX_SOURCES = 200
MAX_SOURCE_BYTES = 10 * 2**20
MAX_ENTRIES = 10_000  # also of what is ignored: a student may hand in their .git
MAX_ARCHIVE_BYTES = 64 * 2**20
MAX_UNPACKED_BYTES = 256 * 2**20  # of a tar, whose entries cannot be skipped
MAX_LISTED = 50

SOURCE = re.compile(r"assignment/(?:[A-Za-z_]\w*/)*[A-Za-z_]\w*\.py", re.ASCII)
OURS = ("assignment/__init__.py", "assignment/__main__.py", "assignment/problems.toml")
DAMAGED = (zipfile.BadZipFile, tarfile.TarError, gzip.BadGzipFile, zlib.error, EOFError, ValueError)


@dataclass(frozen=True)
class Submission:
    """What is graded. `sources` maps a path like `assignment/linear.py` to its content."""

    name: str
    sources: dict[str, bytes]
    ignored: list[Ignored]

    @property
    def sha256(self) -> str:
        """A hash over the paths and contents that are graded."""
        digest = hashlib.sha256()
        for path, content in sorted(self.sources.items()):
            digest.update(f"{path} {len(content)}\n".encode() + content)
        return digest.hexdigest()

    @property
    def info(self) -> SubmissionInfo:
        """What a result says of it."""
        return SubmissionInfo(name=self.name, sha256=self.sha256, files=sorted(self.sources), ignored=self.ignored)


@dataclass(frozen=True)
class Entry:
    """One thing in a submission, before any of it is read: `kind` is "file", "folder", "link" or "special"."""

    path: str
    kind: str
    size: int
    open: Callable[[], IO[bytes]]


def read(path: Path) -> Submission:
    """The submission at `path`.

    Raises:
        SubmissionRefused: It cannot be graded; the text says why.
    """
    try:
        with ExitStack() as stack:
            sources, ignored = _select(_entries(path, stack))
    except OSError as e:
        raise SubmissionRefused(f"{path} cannot be read: {e.strerror or e}") from None
    except (NotImplementedError, RuntimeError) as e:  # an encrypted zip, an unknown compression
        raise SubmissionRefused(f"{path} cannot be unpacked: {printable(str(e), 200)}") from None
    except DAMAGED as e:
        raise SubmissionRefused(f"{path} is damaged: {printable(str(e) or type(e).__name__, 200)}") from None
    if not sources:
        raise SubmissionRefused(f"{path} has an assignment/ folder, but no Python file in it")
    return Submission(_name(path), sources, ignored)


def _name(path: Path) -> str:
    name = path.resolve().name
    return printable(re.sub(r"\.(zip|tar\.gz|tgz)$", "", name), 200).replace("\n", "\\n")


# --- what is in it: one function a format -------------------------------------------------------------------------------


def _entries(path: Path, stack: ExitStack) -> list[Entry]:
    if path.is_dir():
        entries: Iterable[Entry] = _in_folder(path)
    elif not path.exists():
        raise SubmissionRefused(f"{path} does not exist")
    elif not path.is_file():
        raise SubmissionRefused(f"{path} is neither a file nor a folder")
    elif path.stat().st_size > MAX_ARCHIVE_BYTES:
        raise SubmissionRefused(f"{path} is larger than {MAX_ARCHIVE_BYTES >> 20} MiB")
    elif zipfile.is_zipfile(path):
        entries = _in_zip(stack.enter_context(zipfile.ZipFile(path)))
    elif _is_gzip(path):
        unpacked = stack.enter_context(_CappedGzip(path))
        entries = _in_tar(stack.enter_context(tarfile.open(fileobj=unpacked, mode="r:")))  # noqa: SIM115  the stack closes it
    else:
        raise SubmissionRefused(f"{path} is not a folder, a .zip or a .tar.gz")
    found = []
    for entry in entries:
        found.append(entry)
        if len(found) > MAX_ENTRIES:
            raise SubmissionRefused(f"{path} has more than {MAX_ENTRIES} entries")
    return found


def _is_gzip(path: Path) -> bool:
    with path.open("rb") as f:
        return f.read(2) == b"\x1f\x8b"


def _in_folder(root: Path) -> Iterator[Entry]:
    """The assignment folder whole; of what lies beside it only the names."""
    tops = sorted(root.iterdir())
    inside = [top for top in tops if top.is_dir() and not top.is_symlink() and (top / "assignment").is_dir()]
    if (root / "assignment").is_dir():
        inside = []
    base = inside[0] if len(inside) == 1 else root
    if len(inside) > 1:
        yield from (_on_disk(top / "assignment", root) for top in inside)  # so that there are seen to be several
    for top in sorted(base.iterdir()):
        yield _on_disk(top, base)
        if top.name == "assignment" and not top.is_symlink() and top.is_dir():
            for folder, folders, files in os.walk(top, onerror=_raise):
                folders[:] = sorted(f for f in folders if f != "__pycache__")
                for name in sorted([*folders, *files]):
                    yield _on_disk(Path(folder, name), base)


def _raise(error: OSError) -> NoReturn:
    raise error


def _on_disk(path: Path, base: Path) -> Entry:
    mode = path.lstat().st_mode

    def opened() -> IO[bytes]:
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError as e:
            if e.errno == errno.ELOOP:
                raise SubmissionRefused(f"{path} has become a link while it was read") from None
            raise
        return os.fdopen(descriptor, "rb")

    return Entry(path.relative_to(base).as_posix(), _kind(mode), path.lstat().st_size, opened)


def _in_zip(archive: zipfile.ZipFile) -> Iterator[Entry]:
    for info in archive.infolist():
        mode = info.external_attr >> 16
        kind = "folder" if info.is_dir() else _kind(mode) if stat.S_IFMT(mode) else "file"
        yield Entry(info.filename.replace("\\", "/"), kind, info.file_size, partial(_unzipped, archive, info))


def _unzipped(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> IO[bytes]:
    if info.flag_bits & 1:
        raise RuntimeError("it is encrypted")
    if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise NotImplementedError("it is compressed in another way than zip programs do by default")
    return archive.open(info)


def _in_tar(archive: tarfile.TarFile) -> Iterator[Entry]:
    total = 0
    for member in archive:
        total += max(0, member.size)
        if total > MAX_UNPACKED_BYTES:
            raise SubmissionRefused(f"the archive unpacks to more than {MAX_UNPACKED_BYTES >> 20} MiB")
        kinds = [("file", member.isreg()), ("folder", member.isdir()), ("link", member.issym() or member.islnk())]
        kind = next((name for name, holds in kinds if holds), "special")
        yield Entry(member.name, kind, member.size, partial(_extracted, archive, member))


def _extracted(archive: tarfile.TarFile, member: tarfile.TarInfo) -> IO[bytes]:
    content = archive.extractfile(member)
    if content is None:
        raise SubmissionRefused(f"{printable(member.name, 100)} is not a plain file")
    return content


class _CappedGzip(gzip.GzipFile):
    """A gzip file that refuses to unpack without end, whatever a header in it claims."""

    def read(self, size: int | None = -1) -> bytes:
        if size is None or size < 0 or self.tell() + size > 2 * MAX_UNPACKED_BYTES:
            raise SubmissionRefused(f"the archive unpacks to more than {MAX_UNPACKED_BYTES >> 20} MiB")
        return super().read(size)


def _kind(mode: int) -> str:
    if stat.S_ISREG(mode):
        return "file"
    if stat.S_ISDIR(mode):
        return "folder"
    return "link" if stat.S_ISLNK(mode) else "special"


# --- what of it is graded -----------------------------------------------------------------------------------------------


def _select(entries: list[Entry]) -> tuple[dict[str, bytes], list[Ignored]]:
    for entry in entries:
        if entry.path.startswith("/") or ".." in entry.path.split("/") or re.match("[A-Za-z]:", entry.path):
            raise SubmissionRefused(f"the path {printable(entry.path, 100)!r} leads out of the submission")
    prefix = _prefix([entry.path for entry in entries])
    sources: dict[str, bytes] = {}
    ignored: dict[str, str] = {}
    budget = MAX_SOURCE_BYTES
    for entry in entries:
        path = entry.path.removeprefix(prefix).removeprefix("./")
        if (reason := _reason_to_ignore(entry, path, prefix)) is not None:
            if reason:
                _note(ignored, path if entry.path.startswith(prefix) else entry.path, reason)
            continue
        if entry.kind != "file":
            raise SubmissionRefused(f"{printable(path, 100)} is not a plain file, and only those are graded")
        if path == "assignment":
            raise SubmissionRefused("assignment is a file; it has to be a folder")
        if path in sources:
            raise SubmissionRefused(f"{path} is in the archive twice")
        sources[path] = _content(entry, path, budget)
        budget -= len(sources[path])
        if len(sources) > MAX_SOURCES:
            raise SubmissionRefused(f"there are more than {MAX_SOURCES} Python files under assignment/")
    listed = [Ignored(printable(path, 200).replace("\n", "\\n"), reason) for path, reason in sorted(ignored.items())]
    if len(listed) > MAX_LISTED:
        listed = [*listed[:MAX_LISTED], Ignored(f"and {len(listed) - MAX_LISTED} more", "not listed")]
    return sources, listed


def _prefix(paths: list[str]) -> str:
    """What comes before `assignment/`: nothing, or the one folder that GitHub, or a student's zip program, adds."""
    pattern = re.compile(r"(\./)?((?!__MACOSX/)[^/]+/)?assignment(/|$)")
    found = {(m[1] or "") + (m[2] or "") for path in paths if (m := pattern.match(path))}
    if "" in found or "./" in found:
        nested = any(re.match(r"(\./)?assignment/assignment/[^/]+\.py$", path) for path in paths)
        direct = any(re.match(r"(\./)?assignment/[^/]+\.py$", path) for path in paths)
        return "assignment/" if nested and not direct else ""  # the folder above may have that name too
    if len(found) == 1:
        return found.pop()
    if found:
        raise SubmissionRefused(f"there are {len(found)} assignment/ folders; hand in one")
    raise SubmissionRefused("there is no assignment/ folder in it; zip the folder itself, not the files inside it")


def _reason_to_ignore(entry: Entry, path: str, prefix: str) -> str | None:
    """Why an entry is not graded; "" for what is not worth a word, None for a source."""
    name = path.rsplit("/", 1)[-1]
    if path.startswith("__MACOSX/") or name in (".DS_Store", "") or "__pycache__" in path.split("/"):
        return ""
    if entry.kind == "folder":
        return "" if prefix.startswith(path) or path.startswith("assignment") else "outside assignment/"
    if path in ("assignment", "assignment/"):
        return None  # a link or a file where the folder should be: refused
    if not path.startswith("assignment/"):
        return "outside assignment/"
    if entry.kind == "link":
        return None
    if path in OURS:
        return "the course's own is used"
    if name == "conftest.py":
        return "tests and their settings are the course's"
    if not SOURCE.fullmatch(path):
        return "its name cannot be imported" if path.endswith(".py") else "not a Python module"
    return None


def _note(ignored: dict[str, str], path: str, reason: str) -> None:
    """List a file by its name, or, outside assignment/, by the folder that it is in."""
    if not path.startswith("assignment/") and "/" in path.rstrip("/"):
        path = path.split("/", 1)[0] + "/"
    ignored[path] = reason


def _content(entry: Entry, path: str, budget: int) -> bytes:
    """An entry's bytes, never more of them than the budget, whatever its header says."""
    content = b""
    if entry.size <= budget:
        with entry.open() as f:
            content = f.read(budget + 1)
    if entry.size > budget or len(content) > budget:
        raise SubmissionRefused(f"the sources are more than {MAX_SOURCE_BYTES >> 20} MiB (at {path})")
    return content
