"""Read clones of students' repositories: folders such as `hw1-ada`, each with a `.git`."""

import os
import re
import resource
import subprocess
import threading
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

from grader.classroom.class_records import HandedIn
from grader.classroom.intake.folder_items import FolderItem, Found, is_possible, notes_of_skipped

COMMITTER = re.compile(rb"\ncommitter [^\n]* (\d{1,12}) [+-]\d{4}\n")
COMMIT_BYTES = 64 * 2**10  # of a commit, whose header comes first
# For git. It maps packs and indexes into its memory, up to this much.
SECONDS = 10
MEMORY_BYTES = 2 * 2**30
# A repository's own settings may come from the student: git may read no others, start no program,
# and fetch nothing.
ALONE = {
    "GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": os.devnull, "GIT_NO_LAZY_FETCH": "1",
    "GIT_ALLOW_PROTOCOL": "none", "GIT_TERMINAL_PROMPT": "0", "GIT_OPTIONAL_LOCKS": "0",
}  # fmt: skip
SETTINGS = (
    f"core.hooksPath={os.devnull}",
    "core.fsmonitor=false",
    "core.packedGitWindowSize=16m",
    "core.packedGitLimit=256m",
)


def are_clones(items: list[FolderItem]) -> bool:
    """Whether there are folders beside no archives and modules, and all are repositories."""
    graded = [item for item in items if item.kind in ("archive", "folder", "module")]
    return bool(graded) and not _no_clones(graded)


def _no_clones(items: list[FolderItem]) -> list[FolderItem]:
    paths = {item: item.path / ".git" for item in items}
    return [item for item, path in paths.items() if path.is_symlink() or not path.is_dir()]


def warn_of_clones(items: list[FolderItem]) -> list[str]:
    """Warn if only most of these are repositories, because then no time is read from any."""
    others = _no_clones(items)
    clones_here = len(items) - len(others)
    if not others or clones_here <= len(others):
        return []
    return [
        f"{clones_here} folders are repositories, but {others[0].name} is none, so the time of no "
        "commit is read, and nobody is late by it; move the other files elsewhere."
    ]


def clones(items: list[FolderItem]) -> Found:
    """Read clones; without a roster, what their names share up to a hyphen is no part of a key."""
    folders = [item for item in items if item.kind == "folder"]
    shared = os.path.commonprefix([item.stem for item in folders])  # noqa: RUF071, by characters
    shared = shared[: shared.rfind("-") + 1] if folders[1:] else ""
    times = [_time_of(item.path / ".git") for item in folders]
    found = [
        HandedIn(
            path=item.path,
            key=item.stem.removeprefix(shared),
            known_as=(item.stem,) if shared else (),
            submitted_at=at,
        )
        for item, at in zip(folders, times, strict=True)
    ]
    notes = ["The times are those of the last commits, which students can choose."]
    if without := [item.name for item, at in zip(folders, times, strict=True) if at is None]:
        notes.append(f"The last commit of {', '.join(without[:5])} cannot be read: it has no time.")
    others = [item for item in items if item.kind != "folder"]
    return Found(found, notes + notes_of_skipped(others))


def _time_of(repository: Path) -> datetime | None:
    """When a repository's current commit was made; None if git cannot tell within its limits."""
    try:
        match = COMMITTER.search(_start_of_the_commit(repository))
        at = datetime.fromtimestamp(int(match[1]), UTC) if match else None
        return at if at and is_possible(at) else None
    except (OSError, ValueError, OverflowError):
        return None


def _start_of_the_commit(repository: Path) -> bytes:
    """The first bytes of a repository's current commit; git is not asked for more."""
    settings = [word for setting in SETTINGS for word in ("-c", setting)]
    git = subprocess.Popen(
        ["git", *settings, f"--git-dir={repository.absolute()}", "cat-file", "commit", "HEAD"],
        env={"PATH": os.environ.get("PATH", os.defpath), **ALONE},
        cwd="/",
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    late = threading.Timer(SECONDS, git.kill)
    with git:
        late.start()
        with suppress(ProcessLookupError):  # it has ended already
            resource.prlimit(git.pid, resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
        assert git.stdout is not None
        start = git.stdout.read(COMMIT_BYTES)
        git.kill()
    late.cancel()
    return start.partition(b"\n\n")[0] + b"\n"
