"""How large the repository may be, area by area: nothing grows unless somebody decides it.

Whoever needs more raises a number in the same commit, and says in its message what the lines are
for and what they replace. Numbers are rounded up, so that an ordinary change fits.
"""

import subprocess
from collections import Counter

import pytest

# Files, and thousands of lines. A file counts for the first area that its path begins with.
MOST = {
    "grader/solutions": (21, 5),
    "grader": (249, 39),
    "kit": (24, 6),
    "assignment": (17, 3),
    "tests/hidden": (158, 21),
    "tests/probes": (16, 5),
    "tests/public": (22, 6),
    "tests/grader/attacks": (195, 6),
    "tests/grader": (273, 45),
    "tests/handout": (42, 10),
    "handout": (64, 11),
    "": (154, 13),
}


def test_no_area_exceeds_its_budget(root):
    """Tracked files alone count; a picture counts as its bytes are split by line ends."""
    if not (root / ".git").exists():
        pytest.skip("only a clone knows its files")
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=root, check=True, capture_output=True, text=True
    )
    files, lines = Counter(), Counter()
    for path in filter(None, listed.stdout.split("\0")):
        area = next(area for area in MOST if path.startswith(f"{area}/" if area else ""))
        files[area] += 1
        lines[area] += (root / path).read_bytes().count(b"\n")
    assert {area: (files[area], lines[area]) for area in MOST} == {
        area: (min(files[area], most), min(lines[area], 1000 * thousands))
        for area, (most, thousands) in MOST.items()
    }
