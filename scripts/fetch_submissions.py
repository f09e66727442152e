"""Fetch students' repositories as archives, without unpacking or running anything in them.

    python scripts/fetch_submissions.py ROSTER FOLDER [--classroom50 ORG/CLASSROOM/ASSIGNMENT]

ROSTER is the class's roster, a CSV file with the columns `id` and `repository` (such as
`course-2026/ada`). For each student with a repository, the script writes `<id>@<time>.tar.gz` into
FOLDER: the newest commit of the default branch, downloaded with GitHub's command `gh` and the token
in GH_TOKEN. Nothing is checked out, so no hook, filter or setting of a repository has any effect.

Earlier archives stay as earlier attempts, and a commit is fetched only once. The time is the
commit's, which the student's computer wrote, but it is never before the script's last look at the
repository: a commit that was there then has been fetched. So after a run at the deadline, a clock
that was set back helps nobody.

With --classroom50, ROSTER is the roster.csv of a classroom of Classroom 50, with the column
`username`. A student who has not accepted the assignment is no failure.

Exits 1 if a repository could not be fetched; that student's previous archive is kept.
"""

import argparse
import csv
import json
import os
import re
import resource
import subprocess
import sys
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import BinaryIO

REPOSITORY = re.compile(r"[A-Za-z0-9-]+/[A-Za-z0-9._-]+", re.ASCII)
ID = re.compile(r"\w[\w@.+-]*", re.ASCII)
COMMIT = re.compile(r"[0-9a-f]{40,64}", re.ASCII)
MOST_BYTES = 50 * 2**20
SECONDS = 120


class NotFetched(Exception):
    """Why a repository cannot be fetched, in one line."""


def main() -> int:
    """Fetch all; return the exit code."""
    given = _arguments()
    given.folder.mkdir(parents=True, exist_ok=True)
    with given.roster.open(newline="", encoding="utf-8-sig") as f:
        rows = list(csv.DictReader(f))
    students = _students(rows, given.classroom50)
    if not students:
        print(f"{given.roster}: no student has a `repository` or `username`", file=sys.stderr)
        return 1
    failed = 0
    for number, (student, repository) in enumerate(students, start=1):
        try:
            fetch(student, repository, given.folder)
        except NotFetched as e:
            is_absent = bool(given.classroom50) and "(HTTP 404)" in str(e)
            failed += not is_absent
            said = "has not accepted the assignment" if is_absent else e
            print(f"{student!r}: {said}", file=sys.stderr)
        print(f"{number} of {len(students)}, {failed} failed", flush=True)
    return min(failed, 1)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("roster", type=Path, help="a CSV file with the columns id and repository")
    parser.add_argument("folder", type=Path, help="where to write the archives")
    parser.add_argument(
        "--classroom50",
        metavar="ORG/CLASSROOM/ASSIGNMENT",
        help="the roster is that of a classroom of Classroom 50",
    )
    given = parser.parse_args()
    if given.classroom50 and not re.fullmatch(r"[A-Za-z0-9-]+(/[a-z0-9-]+){2}", given.classroom50):
        parser.error("--classroom50: expected ORG/CLASSROOM/ASSIGNMENT")
    return given


def _students(rows: list[dict[str, str]], classroom50: str | None) -> list[tuple[str, str]]:
    """Each student's id and repository."""
    if not classroom50:
        return [(r.get("id") or "", r["repository"]) for r in rows if r.get("repository")]
    organization, classroom, assignment = classroom50.split("/")
    names = [name.strip() for row in rows if (name := row.get("username"))]
    return [(n, f"{organization}/{classroom}-{assignment}-{n}".lower()) for n in names]


def fetch(student: str, repository: str, folder: Path) -> None:
    """Fetch the newest commit of one repository, unless it was fetched before.

    Raises:
        NotFetched: It cannot be fetched.
    """
    if not ID.fullmatch(student):
        raise NotFetched("this id cannot be used as a file name")
    if not REPOSITORY.fullmatch(repository) or ".." in repository:
        raise NotFetched(f"{repository!r} is not a repository; expected a name such as course/ada")
    looked, seen = datetime.now(UTC), folder / f".{student}.commit"
    commit, claimed = _newest_commit(repository)
    before = seen.read_text().strip() if seen.exists() else ""
    if commit != before:
        last = datetime.fromtimestamp(seen.stat().st_mtime, UTC) if before else claimed
        path = _free_path(folder, student, min(looked, max(claimed, last)))
        _download(repository, f"repos/{repository}/tarball/{commit}", path)
        seen.write_text(commit)
    os.utime(seen, (looked.timestamp(),) * 2)


def _newest_commit(repository: str) -> tuple[str, datetime]:
    """The newest commit of the default branch, and the time that its author's computer wrote."""
    text = _run(repository, f"repos/{repository}/commits?per_page=1", subprocess.PIPE)
    with suppress(ValueError, LookupError, TypeError):
        (newest,) = json.loads(text)
        if COMMIT.fullmatch(newest["sha"]):
            at = datetime.fromisoformat(newest["commit"]["committer"]["date"])
            return newest["sha"], at.astimezone(UTC)
    raise NotFetched(f"{repository}: GitHub names no commit")


def _free_path(folder: Path, student: str, at: datetime) -> Path:
    """A name for an archive of this time that is not in use; if need be, some seconds later."""
    while True:
        path = folder / f"{student}@{at:%Y-%m-%dT%H-%M-%S}Z.tar.gz"
        if not path.exists():
            return path
        at += timedelta(seconds=1)


def _download(repository: str, address: str, whole: Path) -> None:
    """Write GitHub's answer to a file, completely or not at all."""
    part = whole.with_name(f".{whole.name}.part")
    try:
        with part.open("wb") as out:
            _run(repository, address, out)
        os.replace(part, whole)
    finally:
        part.unlink(missing_ok=True)


def _run(repository: str, address: str, out: int | BinaryIO) -> bytes:
    """Send one request to GitHub; return the answer, unless `out` is a file for it."""
    try:
        done = subprocess.run(
            ["gh", "api", address],
            stdout=out,
            stderr=subprocess.PIPE,
            timeout=SECONDS,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (MOST_BYTES + 1,) * 2),
        )
    except FileNotFoundError:
        raise NotFetched("GitHub's command `gh` is not installed") from None
    except subprocess.TimeoutExpired:
        raise NotFetched(f"{repository}: no answer within {SECONDS} s") from None
    if not isinstance(out, int) and os.fstat(out.fileno()).st_size > MOST_BYTES:
        raise NotFetched(f"{repository} is larger than {MOST_BYTES >> 20} MiB")
    if done.returncode:
        said = done.stderr.decode(errors="backslashreplace").strip().splitlines()
        why = ascii(said[-1][:300]) if said else "no reason given"
        raise NotFetched(f"{repository} cannot be fetched: {why}")
    return done.stdout or b""


if __name__ == "__main__":
    sys.exit(main())
