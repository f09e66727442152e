"""Turn a student's folder or archive into the sources that are graded.

The sources are filtered by an allow-list, read once, limited in size, and hashed.

A submission is a folder, a .zip or a .tar.gz that contains `assignment/*.py`, possibly inside one
more folder, as GitHub creates them. A single folder of that name is found at any depth, whatever
the case of its letters. Modules of the course without that folder are accepted if it is clear which
they are, and so is a notebook whose cells write them (notebook_modules.py). The graded files are
read into memory exactly once and never looked up by name again, so nothing can change after it was
checked. All other files are ignored and listed. Anything that cannot be an honest mistake (a path
that leaves the archive, a link in place of a source, a decompression bomb) makes the grader refuse
the whole submission, with one sentence.
"""

import re
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

from grader.base.errors import SubmissionRefused
from grader.results.result_records import Ignored, SubmissionInfo
from grader.submission import notebook_modules
from grader.submission.archives import (
    DAMAGED,
    SubmittedItem,
    entries,
    folder_named_assignment,
    on_disk,
    real_place,
)
from kit import handing_in
from kit.handing_in import Accepted
from kit.safe_text import first, one_line, printable

MAX_LISTED = 50
AGAIN = re.compile(r"-\d+(?=\.py$)")
DRIVE = re.compile("[A-Za-z]:")
PREFIX = re.compile(r"(\./)?((?!__MACOSX/)[^/]+/)?assignment(/|$)")
MODULE = re.compile(r"(\./)?assignment/[^/]+\.py$")
MODULE_BELOW = re.compile(r"(\./)?assignment/assignment/[^/]+\.py$")
SUFFIX = re.compile(r"\.(zip|tar\.gz|tgz)$")
ARCHIVES = re.compile(r"\.(zip|tar|tar\.\w+|tgz|gz|rar|7z)$", re.IGNORECASE)
HOW_TO_HAND_IN = (
    "hand in the zip that `python -m assignment submit` writes, or zip the folder assignment/"
)


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


def read(
    path: Path,
    accepted: Accepted = handing_in.EVERY_COURSE,
    *,
    parts: Mapping[str, Path] | None = None,
    follow: bool = True,
) -> Submission:
    """Read the submission at `path`.

    Args:
        path: A folder, an archive, or a single module or notebook.
        accepted: What the course grades.
        parts: The files of a submission without a folder, by their names in it; then `path` only
            names it. `linear-1.py` is the module `linear.py` handed in again.
        follow: Whether `path` may be a link; see `archives.entries`.

    Raises:
        SubmissionRefused: It cannot be graded; the text says why.
    """
    try:
        with ExitStack() as stack:
            found = _of_parts(parts, accepted) if parts else entries(path, stack, follow=follow)
            sources, ignored = _select(found, accepted)
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
    if why := handing_in.unfit(sources, accepted):
        raise SubmissionRefused(why)
    return Submission(_name(path), sources, ignored)


def _of_parts(parts: Mapping[str, Path], accepted: Accepted) -> list[SubmittedItem]:
    """The files of a submission under the names that the course gives them."""
    wanted = {path.removeprefix("assignment/") for path in accepted.modules}
    found = {}
    for name, path in parts.items():
        usual = AGAIN.sub("", name)
        found[usual if name not in wanted and usual in wanted else name] = path
    return [
        replace(on_disk(path, path.parent, real_place(path.parent)), path=name)
        for name, path in found.items()
    ]


def _name(path: Path) -> str:
    name = path.resolve().name
    return one_line(SUFFIX.sub("", name), 200)


# --- which files are graded -----------------------------------------------------------------------


def _select(
    found: list[SubmittedItem], accepted: Accepted
) -> tuple[dict[str, bytes], list[Ignored]]:
    for entry in found:
        if entry.path.startswith("/") or ".." in entry.path.split("/") or DRIVE.match(entry.path):
            where = printable(entry.path, 100)
            raise SubmissionRefused(f"the path {where!r} leads out of the submission")
    ignored: dict[str, str] = {}
    prefix = _prefix([entry.path for entry in found])
    if prefix is None and (deep := _deep(found)):
        found, where = _as_in_assignment(found, deep, accepted), deep.rstrip("/")
        ignored[f"(the folder {where})"] = "taken as assignment/"
        prefix = ""
    if prefix is None:
        if (place := _loose(found, accepted)) is None:
            return _of_notebook(found, accepted)
        found = _as_in_assignment(found, place, accepted)
        prefix = ""
        where = place.rstrip("/") if place else "the top"
        ignored[f"(modules at {where})"] = "taken as if they were in assignment/"
    sources: dict[str, bytes] = {}
    budget = handing_in.MAX_BYTES
    for entry in found:
        path = entry.path.removeprefix(prefix).removeprefix("./")
        if (reason := _reason_to_ignore(entry, path, prefix, accepted)) is not None:
            if reason:
                _note(ignored, path if entry.path.startswith(prefix) else entry.path, reason)
            continue
        if entry.kind != "file":
            raise SubmissionRefused(
                f"{printable(path, 100)} is not a plain file; only plain files are graded"
            )
        if path == "assignment":
            raise SubmissionRefused("assignment is a file; it has to be a folder")
        if path in sources:
            raise SubmissionRefused(f"{printable(path, 100)} is in the archive twice")
        sources[path] = _content(entry, path, budget)
        budget -= len(sources[path])
    _ask_about_names(sources, ignored, accepted)
    return sources, _listed(ignored)


def _listed(ignored: dict[str, str]) -> list[Ignored]:
    """What was ignored and why, sorted by path, and cut to MAX_LISTED."""
    listed = [Ignored(one_line(path, 200), reason) for path, reason in sorted(ignored.items())]
    if len(listed) <= MAX_LISTED:
        return listed
    more = Ignored(f"and {len(listed) - MAX_LISTED} more", "not listed")
    return [*listed[:MAX_LISTED], more]


def _ask_about_names(
    sources: dict[str, bytes], ignored: dict[str, str], accepted: Accepted
) -> None:
    """Note which files look like a module of the course, and what a notebook may be."""
    for path in [*sources, *ignored]:
        like = handing_in.look_alike(path, accepted)
        before = f"{ignored[path]}; " if path in ignored else ""
        if path.endswith(".ipynb"):
            ignored[path] = f"{before}{handing_in.MEANT} the solution?"
        elif like and like not in sources:
            ignored[path] = f"{before}{handing_in.MEANT} {like}, which is missing?"
        elif like and (path not in sources or path == f"assignment/{like}"):
            ignored[path] = f"{before}{handing_in.MEANT} {like}?"


def _prefix(paths: list[str]) -> str | None:
    """The prefix before `assignment/`: empty, or the folder that GitHub or a zip program adds.

    None if there is no such folder.
    """
    found = {(m[1] or "") + (m[2] or "") for path in paths if (m := PREFIX.match(path))}
    if "" in found or "./" in found:
        nested = any(map(MODULE_BELOW.match, paths))
        direct = any(map(MODULE.match, paths))
        # The enclosing folder may be named assignment too.
        return "assignment/" if nested and not direct else ""
    if len(found) == 1:
        return found.pop()
    if found:
        raise SubmissionRefused(f"there are {len(found)} assignment/ folders; hand in one")
    return None


def _deep(found: list[SubmittedItem]) -> str | None:
    """The one folder, at any depth and in any case, that is named assignment; None without it."""
    modules = [
        entry.path
        for entry in found
        if entry.path.endswith(".py") and not entry.path.startswith("__MACOSX/")
    ]
    places = {place for path in modules if (place := folder_named_assignment(path))}
    if len(places) > 1:
        raise SubmissionRefused(f"there are {len(places)} assignment/ folders; hand in one")
    return next(iter(places), None)


def _loose(found: list[SubmittedItem], accepted: Accepted) -> str | None:
    """The one folder that holds modules of the course as assignment/ would, if there is one."""
    wanted = [path.removeprefix("assignment/") for path in accepted.modules]
    files = [entry.path for entry in found if entry.kind == "file"]
    files = [path for path in files if not path.startswith("__MACOSX/")]
    if len(wanted) == len(files) == 1 and files[0].endswith(".py"):
        return files[0]  # whatever the only file is called, it must be the only module
    places = {
        path[: -len(name)]
        for path in files
        for name in wanted
        if path == name or path.endswith(f"/{name}")
    }
    if len(places) > 1:
        raise SubmissionRefused(
            f"the submission has no assignment/ folder, and modules in {len(places)} places; "
            f"{HOW_TO_HAND_IN}"
        )
    return next(iter(places), None)


def _as_in_assignment(
    found: list[SubmittedItem], place: str, accepted: Accepted
) -> list[SubmittedItem]:
    """The items of a place as if they were in assignment/; a file is the course's only module."""
    if place.endswith(".py"):
        return [replace(entry, path=accepted.modules[0]) for entry in found if entry.path == place]
    return [
        replace(entry, path=f"assignment/{entry.path.removeprefix(place)}")
        if entry.path.startswith(place)
        else entry
        for entry in found
    ]


def _of_notebook(
    found: list[SubmittedItem], accepted: Accepted
) -> tuple[dict[str, bytes], list[Ignored]]:
    """The modules in the only notebook of a submission without an assignment/ folder."""
    others = ("__MACOSX", ".ipynb_checkpoints")
    files = [e for e in found if e.kind == "file" and not any(map(e.path.count, others))]
    notebooks_ = [entry for entry in files if entry.path.endswith(".ipynb")]
    if len(notebooks_) != 1:
        raise SubmissionRefused(f"{_without_modules(files)}; {HOW_TO_HAND_IN}")
    (one,) = notebooks_
    if one.size > notebook_modules.MAX_NOTEBOOK_BYTES:
        most = notebook_modules.MAX_NOTEBOOK_BYTES >> 20
        raise SubmissionRefused(f"{printable(one.path, 100)} is larger than {most} MiB")
    content = _content(one, one.path, notebook_modules.MAX_NOTEBOOK_BYTES)
    name = printable(one.path, 100)
    sources = {
        path: source
        for path, source in notebook_modules.modules_in(content, name, accepted.modules).items()
        if not handing_in.reason_to_leave_out(path, accepted)
    }
    if sum(map(len, sources.values())) > handing_in.MAX_BYTES:
        raise SubmissionRefused(
            f"the modules in {printable(one.path, 100)} together are more than "
            f"{handing_in.MAX_BYTES >> 20} MiB"
        )
    return sources, [Ignored(one_line(one.path, 200), "its cells were taken as modules")]


def _without_modules(files: list[SubmittedItem]) -> str:
    """What a submission is in which nothing can be graded."""
    if not files:
        return "the submission is empty"
    notebooks_ = [printable(e.path, 60) for e in files if e.path.endswith(".ipynb")]
    if len(notebooks_) > 1:
        names = ", ".join(notebooks_[:3])
        return f"the submission has {len(notebooks_)} notebooks, {names}: hand in one of them"
    inner = [entry.path for entry in files if ARCHIVES.search(entry.path)]
    if inner and not any(entry.path.endswith(".py") for entry in files):
        return (
            f"the submission contains another archive, {printable(inner[0], 100)}, which is not "
            "unpacked"
        )
    names = first([printable(entry.path, 60) for entry in files], 3)
    return f"the submission has no assignment/ folder; got {names}"


def _reason_to_ignore(
    entry: SubmittedItem, path: str, prefix: str, accepted: Accepted
) -> str | None:
    """Why an entry is not graded; "" if that need not be mentioned, None for a source."""
    name = path.rsplit("/", 1)[-1]
    if (
        path.startswith("__MACOSX/")
        or name in (".DS_Store", "")
        or name.startswith("._")  # macOS keeps a file's attributes there
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
    return handing_in.reason_to_leave_out(path, accepted) or None


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
            f"the sources together are more than {handing_in.MAX_BYTES >> 20} MiB "
            f"(at {printable(path, 100)})"
        )
    return content
