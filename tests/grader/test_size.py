"""How large the repository may be, area by area: nothing grows unless somebody decides it.

Whoever needs more raises a number in the same commit, and says in its message what the lines are
for and what they replace. Numbers are rounded up, so that an ordinary change fits.
"""

import ast
import statistics
from collections import Counter

import pytest

from grader.course import courses
from tests.grader.processes import ran

# Files, and thousands of lines. A file counts for the first area that its path begins with.
MOST = {
    "grader/solutions": (19, 4),
    "grader": (198, 31),
    "kit": (20, 6),
    "assignment": (17, 3),
    "tests/hidden": (78, 16),
    "tests/probes": (15, 5),
    "tests/public": (22, 5),
    "tests/grader/attacks": (12, 3),
    "tests/grader": (138, 30),
    "tests/handout": (38, 7),
    "handout": (72, 11),
    "": (120, 9),
}
# Words in the docstrings of graded objects: of all, their median, of one, and of the longest.
ALL_WORDS, MEDIAN_WORDS, WORDS, WORDS_OF_TRAIN = 6000, 65, 170, 320


def test_no_area_exceeds_its_budget(root):
    """Tracked files alone count; a picture counts as its bytes are split by line ends."""
    if not (root / ".git").exists():
        pytest.skip("only a clone knows its files")
    listed = ran(["git", "ls-files", "-z"], cwd=root)
    files, lines = Counter(), Counter()
    for path in filter(None, listed.stdout.split("\0")):
        area = next(area for area in MOST if path.startswith(f"{area}/" if area else ""))
        files[area] += 1
        lines[area] += (root / path).read_bytes().count(b"\n")
    assert {area: (files[area], lines[area]) for area in MOST} == {
        area: (min(files[area], most), min(lines[area], 1000 * thousands))
        for area, (most, thousands) in MOST.items()
    }


def words_of_stubs() -> dict[str, int]:
    """The words in the docstrings of each graded object and of its methods."""
    course, counts = courses.load(), dict[str, int]()
    for problem in course.problems:
        for node in courses.tree_of(course.root / problem.path).body:
            if isinstance(node, ast.FunctionDef | ast.ClassDef) and node.name in problem.functions:
                parts = [p for p in ast.walk(node) if isinstance(p, ast.FunctionDef | ast.ClassDef)]
                docstrings = " ".join(ast.get_docstring(part) or "" for part in parts)
                counts[node.name] = len(docstrings.split())
    return counts


def test_stubs_are_read_in_one_breath():
    """Example lines and types of arguments count, too."""
    counts = words_of_stubs()
    assert sum(counts.values()) <= ALL_WORDS
    assert statistics.median(counts.values()) <= MEDIAN_WORDS
    assert counts.pop("train") <= WORDS_OF_TRAIN
    assert {name: number for name, number in counts.items() if number > WORDS} == {}
