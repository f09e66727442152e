"""Get the roster and the scores of a classroom of Classroom 50, and send the scores back.

    python scripts/classroom50_scores.py get ORG/CLASSROOM FOLDER
    python scripts/classroom50_scores.py send ORG/CLASSROOM FOLDER SCORES.json

`get` copies the organization's repository `classroom50` into FOLDER, so that the roster is
FOLDER/CLASSROOM/roster.csv and the scores are FOLDER/CLASSROOM/scores.json. `send` makes
SCORES.json the scores, with one commit, or does nothing if they are equal. The token in GH_TOKEN
may read and write the contents of that repository; GitHub's command `gh` gives it to git, and it is
written nowhere.

Exits 1 if GitHub refuses, also if the scores changed since `get`: run both again.
"""

import argparse
import re
import shutil
import subprocess
import sys
from pathlib import Path

CREDENTIALS = ("-c", "credential.helper=", "-c", "credential.helper=!gh auth git-credential")
AUTHOR = ("-c", "user.name=grader", "-c", "user.email=grader@users.noreply.github.com")
SECONDS = 300


class NotDone(Exception):
    """What git said, in one line."""


def main() -> int:
    """Run the command; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("command", choices=["get", "send"])
    parser.add_argument("classroom", help="ORG/CLASSROOM")
    parser.add_argument("folder", type=Path, help="a copy of the organization's classroom50")
    parser.add_argument("scores", type=Path, nargs="?", help="send: the new scores")
    given = parser.parse_args()
    if not re.fullmatch(r"[A-Za-z0-9-]+/[a-z0-9-]+", given.classroom):
        parser.error("expected ORG/CLASSROOM")
    if (given.command == "send") != (given.scores is not None):
        parser.error("expected SCORES.json after `send`, and nowhere else")
    organization, classroom = given.classroom.split("/")
    try:
        if given.command == "get":
            get(organization, classroom, given.folder)
        else:
            send(classroom, given.folder, given.scores)
    except NotDone as e:
        print(e, file=sys.stderr)
        return 1
    return 0


def get(organization: str, classroom: str, folder: Path) -> None:
    """Copy the repository, in place of an earlier copy."""
    address = f"https://github.com/{organization}/classroom50.git"
    if folder.exists():
        config = folder / ".git" / "config"
        if not config.is_file() or f"url = {address}\n" not in config.read_text():
            raise NotDone(f"{folder} is not a copy of {address}: name a new folder")
        shutil.rmtree(folder)
    _git(*CREDENTIALS, "clone", "--quiet", "--depth", "1", address, str(folder))
    if not (folder / classroom / "roster.csv").is_file():
        raise NotDone(f"{organization} has no classroom {classroom}")


def send(classroom: str, folder: Path, scores: Path) -> None:
    """Commit and push the scores, unless they are equal."""
    inside = ("-C", str(folder))
    target = folder / classroom / "scores.json"
    if target.read_bytes() == scores.read_bytes():
        print("the scores are unchanged")
        return
    shutil.copyfile(scores, target)
    _git(*inside, "add", "--", f"{classroom}/scores.json")
    _git(*inside, *AUTHOR, "commit", "--quiet", "-m", f"Scores of {classroom}, by the grader")
    _git(*inside, *CREDENTIALS, "push", "--quiet", "origin", "HEAD")
    print("the scores were sent")


def _git(*words: str) -> None:
    try:
        done = subprocess.run(
            ["git", *words], stdin=subprocess.DEVNULL, capture_output=True, timeout=SECONDS
        )
    except FileNotFoundError:
        raise NotDone("git is not installed") from None
    except subprocess.TimeoutExpired:
        raise NotDone(f"no answer from GitHub within {SECONDS} s") from None
    if done.returncode:
        said = done.stderr.decode(errors="backslashreplace").strip().splitlines()
        raise NotDone(f"git failed: {ascii(said[-1][:300]) if said else 'no reason given'}")


if __name__ == "__main__":
    sys.exit(main())
