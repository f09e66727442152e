"""Fetch students' repositories as archives, without unpacking or running anything in them.

    python scripts/fetch_submissions.py ROSTER FOLDER

ROSTER is the class's roster, a CSV file with the columns `id` and `repository` (such as
`course-2026/ada`). For each student with a repository, the script writes `<id>.tar.gz` into FOLDER:
the newest commit of the default branch, downloaded with GitHub's command `gh` and the token in
GH_TOKEN. Nothing is checked out, so no hook, filter or setting of a repository has any effect.

Exits 1 if a repository could not be fetched; that student's previous archive is kept.
"""

import argparse
import csv
import os
import re
import subprocess
import sys
from pathlib import Path

REPOSITORY = re.compile(r"[A-Za-z0-9-]+/[A-Za-z0-9._-]+", re.ASCII)
ID = re.compile(r"\w[\w@.+-]*", re.ASCII)
MOST_BYTES = 50 * 2**20
SECONDS = 120


def main() -> int:
    """Fetch all; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("roster", type=Path, help="a CSV file with the columns id and repository")
    parser.add_argument("folder", type=Path, help="where to write <id>.tar.gz for each student")
    given = parser.parse_args()
    roster, folder = given.roster, given.folder
    folder.mkdir(parents=True, exist_ok=True)
    with roster.open(newline="", encoding="utf-8-sig") as f:
        rows = [row for row in csv.DictReader(f) if row.get("repository")]
    if not rows:
        print(f"{roster}: no student has a `repository`", file=sys.stderr)
        return 1
    failed = 0
    for number, row in enumerate(rows, start=1):
        student, repository = row.get("id") or "", row["repository"]
        if trouble := fetch(student, repository, folder):
            failed += 1
            print(f"{student!r}: {trouble}", file=sys.stderr)
        print(f"{number} of {len(rows)}, {failed} failed", flush=True)
    return min(failed, 1)


def fetch(student: str, repository: str, folder: Path) -> str:
    """Fetch one repository; return what went wrong, or an empty string."""
    if not ID.fullmatch(student):
        return "this id cannot be used as a file name"
    if not REPOSITORY.fullmatch(repository) or ".." in repository:
        return f"{repository!r} is not a repository; expected a name such as course-2026/ada"
    part, whole = folder / f".{student}.part", folder / f"{student}.tar.gz"
    try:
        with part.open("wb") as out:
            done = subprocess.run(
                ["gh", "api", f"repos/{repository}/tarball"],
                stdout=out,
                stderr=subprocess.PIPE,
                timeout=SECONDS,
            )
        if done.returncode:
            said = done.stderr.decode(errors="backslashreplace").strip().splitlines()
            why = ascii(said[-1][:300]) if said else "no reason given"
            return f"{repository} cannot be fetched: {why}"
        if part.stat().st_size > MOST_BYTES:
            return f"{repository} is larger than {MOST_BYTES >> 20} MiB"
        os.replace(part, whole)
    except FileNotFoundError:
        return "GitHub's command `gh` is not installed"
    except subprocess.TimeoutExpired:
        return f"{repository}: no answer within {SECONDS} s"
    finally:
        part.unlink(missing_ok=True)
    return ""


if __name__ == "__main__":
    sys.exit(main())
