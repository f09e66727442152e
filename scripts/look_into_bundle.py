"""Search a bundle for secrets that students must not see: look_into_bundle.py ZIP

The exit code is 1 if anything is found.
"""

import argparse
import re
import sys
import zipfile
from pathlib import Path

from grader.course import courses
from grader.publish import leaks, stub_files

OURS = re.compile(
    r"(^|/)(grader|hidden|reference|mistakes|variants|promises|course_files|__pycache__)(/|\.|$)"
)


def complaints(files: dict[str, bytes]) -> list[str]:
    """One complaint per staff file, per secret line, and per mark of a solution."""
    found = [f"{path} is for the staff only" for path in files if OURS.search(path)]
    found += map(str, leaks.leaks(files, leaks.secrets(courses.load())))
    for path, content in files.items():
        if mark := stub_files.MARK.search(content.decode(errors="replace")):
            found.append(f"{path} contains the mark of a solution: {mark[0]}")
    return found


def main() -> int:
    """Print the complaints."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("bundle", type=Path, help="the zip from `grader release`")
    with zipfile.ZipFile(parser.parse_args().bundle) as archive:
        files = {name: archive.read(name) for name in archive.namelist()}
    found = complaints(files)
    print(*found, f"{len(files)} files, {len(found)} complaints", sep="\n")
    return 1 if found or not files else 0


if __name__ == "__main__":
    sys.exit(main())
