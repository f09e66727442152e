"""Submissions of a class, with torch and without it, and its exported table, read back."""

import csv
import io
import shlex
import zipfile

from grader.classroom import spreadsheet_csv
from tests.grader.small_courses import LISTS

SOLVED = """
import torch

def relu(x):
    return x * (x > 0)


def softmax(x):
    e = (x - x.max(-1, keepdim=True).values).exp()
    return e / e.sum(-1, keepdim=True)
"""
NO_SHIFT = SOLVED.replace("x - x.max(-1, keepdim=True).values", "x")
STUB = 'def relu(x):\n    raise NotImplementedError("relu")\n'
FORKS = "import os\nwhile True:\n    os.fork()\n"
HOG = "held = [bytearray(2**24) for _ in range(10**6)]\n"
KILLS = "import os, signal\nos.kill(os.getppid(), signal.SIGKILL)\nos.kill(-1, signal.SIGKILL)\n"


def class_of(solved, not_shifted, absolute, other):
    """Each student's submission and its expected points; None for no submission or no points."""
    beginning, _, softmax = solved.partition("def softmax")
    imports = beginning.partition("def relu")[0]
    return {
        "ada": (solved, 3.0),
        "bob": (not_shifted, 2.0),
        "cyd": (f"{imports}{STUB}def softmax{softmax}", 2.0),
        "dan": (absolute, 2.0),
        "eve": (FORKS, 0.0),
        "fay": (HOG, 0.0),
        "gil": (KILLS, 0.0),
        "hal": ("def relu(x:\n", 0.0),
        "ian": (None, None),
        "joy": (other, 3.0),
    }


WITH_TORCH = class_of(
    SOLVED,
    NO_SHIFT,
    SOLVED.replace("x * (x > 0)", "x.abs()"),
    SOLVED.replace("x * (x > 0)", "x.clamp(0)"),
)
WITH_LISTS = class_of(
    LISTS,
    LISTS.replace("n - max(x)", "n"),
    LISTS.replace("max(0.0, n)", "abs(n)"),
    LISTS.replace("max(0.0, n)", "n * (n > 0)"),
)


def hand_in(folder, name, source):
    path = folder / f"{name}.zip"
    if source is None:
        path.write_bytes(b"PK\3\4 no zip")
        return
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("assignment/activations.py", source)


def hand_in_class(folder, students):
    folder.mkdir()
    for name, (source, _) in students.items():
        hand_in(folder, name, source)
    return folder


def keep(handed_in, *names):
    for path in handed_in.glob("*.zip"):
        if path.stem not in names:
            path.unlink()


def read_csv_table(text):
    """The cells of each row, by the name of their column, without the apostrophes of formulas."""
    header, *others = csv.reader(io.StringIO(text, newline=""), strict=True)
    return [dict(zip(map(original, header), map(original, row), strict=True)) for row in others]


def original(cell):
    """A cell's text without the apostrophes that keep a spreadsheet from running it."""
    parts = cell.split(";")
    return ";".join(
        p[1:] if p.startswith("'") and spreadsheet_csv._is_formula(p) else p for p in parts
    )


class Desk:
    """The current folder, in which a teaching assistant types commands."""

    def __init__(self, folder, typed):
        self.folder, self.types = folder, typed.all

    def __call__(self, line, *, code=0):
        """Run a command; return all that it prints. What runs tests has to name the course."""
        words = shlex.split(line)
        if words[0] in ("batch", "regrade") and "--course" not in words:
            words += ["--course", "course"]
        got, said = self.types(*words)
        assert got == code, f"$ grader {line}\n{said}"
        return said

    def write(self, name, text):
        path = self.folder / name
        path.parent.mkdir(exist_ok=True, parents=True)
        path.write_text(text)

    def points(self):
        self("export g.sqlite --csv out.csv")
        rows = read_csv_table((self.folder / "out.csv").read_text())
        return {row["id"]: float(row["points"]) if row["points"] else None for row in rows}
