"""Turn a student's folder or archive into the sources that are graded.

The sources are filtered by an allow-list, read once, limited in size, and hashed.

A submission is a folder, a .zip or a .tar.gz that contains `assignment/*.py`, possibly inside one
more folder, as GitHub creates them. The graded files are read into memory exactly once and never
looked up by name again, so nothing can change after it was checked. All other files are ignored and
listed. Anything that cannot be an honest mistake (a path that leaves the archive, a link in place
of a source, a decompression bomb) makes the grader refuse the whole submission, with one sentence.
"""

import re
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from grader.base.errors import SubmissionRefused
from grader.results.records import Ignored, SubmissionInfo
from grader.submission.archives import DAMAGED, SubmittedItem, entries
from kit import handing_in
from kit.text import one_line, printable

MAX_LISTED = 50


@dataclass(frozen=True)
class Submission:
    """The submission to grade. `sources` maps a path like `assignment/linear.py` to its content."""

    name: str
    sources: dict[str, bytes]
    ignored: list[Ignored]

    @property
    def sha256(self) -> str:
        """A hash of the paths and contents that are graded."""
        return handing_in.sha256(self.sources)

    @property
    def info(self) -> SubmissionInfo:
        """The submission as a result describes it."""
        return SubmissionInfo(
            name=self.name, sha256=self.sha256, files=sorted(self.sources), ignored=self.ignored
        )


def read(path: Path) -> Submission:
    """Read the submission at `path`.

    Raises:
        SubmissionRefused: It cannot be graded; the text says why.
    """
    try:
        with ExitStack() as stack:
            sources, ignored = _select(entries(path, stack))
    except OSError as e:
        which = e.filename if isinstance(e.filename, str) else path
        raise SubmissionRefused(
            f"{printable(str(which), 300)} cannot be read: {e.strerror or e}"
        ) from None
    except (NotImplementedError, RuntimeError) as e:  # an encrypted zip, an unknown compression
        raise SubmissionRefused(f"{path} cannot be unpacked: {printable(str(e), 200)}") from None
    except DAMAGED as e:
        raise SubmissionRefused(
            f"{path} is damaged: {printable(str(e) or type(e).__name__, 200)}"
        ) from None
    if not sources:
        raise SubmissionRefused(f"{path} has an assignment/ folder, but no Python file in it")
    return Submission(_name(path), sources, ignored)


def _name(path: Path) -> str:
    name = path.resolve().name
    return one_line(re.sub(r"\.(zip|tar\.gz|tgz)$", "", name), 200)


# --- which files are graded -----------------------------------------------------------------------


def _select(found: list[SubmittedItem]) -> tuple[dict[str, bytes], list[Ignored]]:
    for entry in found:
        if (
            entry.path.startswith("/")
            or ".." in entry.path.split("/")
            or re.match("[A-Za-z]:", entry.path)
        ):
            raise SubmissionRefused(
                f"the path {printable(entry.path, 100)!r} leads out of the submission"
            )
    prefix = _prefix([entry.path for entry in found])
    sources: dict[str, bytes] = {}
    ignored: dict[str, str] = {}
    budget = handing_in.MAX_BYTES
    for entry in found:
        path = entry.path.removeprefix(prefix).removeprefix("./")
        if (reason := _reason_to_ignore(entry, path, prefix)) is not None:
            if reason:
                _note(ignored, path if entry.path.startswith(prefix) else entry.path, reason)
            continue
        if entry.kind != "file":
            raise SubmissionRefused(
                f"{printable(path, 100)} is not a plain file; only plain files are graded"
            )
        if path == "assignment":
            raise SubmissionRefused("assignment is a file; it has to be a folder")
        _check_length(path)
        if path in sources:
            raise SubmissionRefused(f"{path} is in the archive twice")
        sources[path] = _content(entry, path, budget)
        budget -= len(sources[path])
        if len(sources) > handing_in.MAX_FILES:
            raise SubmissionRefused(
                f"there are more than {handing_in.MAX_FILES} Python files under assignment/"
            )
    listed = [Ignored(one_line(path, 200), reason) for path, reason in sorted(ignored.items())]
    if len(listed) > MAX_LISTED:
        listed = [
            *listed[:MAX_LISTED],
            Ignored(f"and {len(listed) - MAX_LISTED} more", "not listed"),
        ]
    return sources, listed


def _prefix(paths: list[str]) -> str:
    """The prefix before `assignment/`: empty, or the folder that GitHub or a zip program adds."""
    pattern = re.compile(r"(\./)?((?!__MACOSX/)[^/]+/)?assignment(/|$)")
    found = {(m[1] or "") + (m[2] or "") for path in paths if (m := pattern.match(path))}
    if "" in found or "./" in found:
        nested = any(re.match(r"(\./)?assignment/assignment/[^/]+\.py$", path) for path in paths)
        direct = any(re.match(r"(\./)?assignment/[^/]+\.py$", path) for path in paths)
        # The enclosing folder may be named assignment too.
        return "assignment/" if nested and not direct else ""
    if len(found) == 1:
        return found.pop()
    if found:
        raise SubmissionRefused(f"there are {len(found)} assignment/ folders; hand in one")
    raise SubmissionRefused(
        "the submission has no assignment/ folder; zip the folder itself, not the files inside it"
    )


def _reason_to_ignore(entry: SubmittedItem, path: str, prefix: str) -> str | None:
    """Why an entry is not graded; "" if that need not be mentioned, None for a source."""
    name = path.rsplit("/", 1)[-1]
    if (
        path.startswith("__MACOSX/")
        or name in (".DS_Store", "")
        or "__pycache__" in path.split("/")
    ):
        return ""
    if entry.kind == "folder":
        return (
            ""
            if prefix.startswith(path) or path.startswith("assignment")
            else "outside assignment/"
        )
    if path in ("assignment", "assignment/"):
        return None  # a link or a file in place of the folder: refused later
    if not path.startswith("assignment/"):
        return "outside assignment/"
    if entry.kind == "link":
        return None
    return handing_in.reason_to_leave_out(path) or None


def _check_length(path: str) -> None:
    """Refuse a source that could not be written to every file system."""
    if found := handing_in.too_long(path):
        raise SubmissionRefused(
            f"the path {printable(path, 60)!r} is too long: {found[0]}; {found[1]}"
        )


def _note(ignored: dict[str, str], path: str, reason: str) -> None:
    """List a file by its name or, outside assignment/, by its top-level folder."""
    if not path.startswith("assignment/") and "/" in path.rstrip("/"):
        path = path.split("/", 1)[0] + "/"
    ignored[path] = reason


def _content(entry: SubmittedItem, path: str, budget: int) -> bytes:
    """An entry's bytes, never more than the budget, whatever its header claims."""
    content = b""
    if entry.size <= budget:
        with entry.open() as f:
            content = f.read(budget + 1)
    if entry.size > budget or len(content) > budget:
        raise SubmissionRefused(
            f"the sources together are more than {handing_in.MAX_BYTES >> 20} MiB (at {path})"
        )
    return content
