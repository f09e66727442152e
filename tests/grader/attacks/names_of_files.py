"""A zip with a thousand files whose names contain escape sequences, text direction marks and markup.

group: attack the reader
target: linear
kind: archive
earns: full
holds: file names are escaped, and only a readable number of them is listed.
"""

import zipfile
from pathlib import Path

EVIL = "\x1b[2J\x1b]0;owned\x07\u202egnp.exe\u2066<script>alert(1){{ 7*7 }}[red]\n\r"


def build(folder: Path) -> Path:
    path = folder / "\x1b[2J\u202esubmission.zip"
    with zipfile.ZipFile(path, "w") as archive:
        for name in ("linear", "tensor_memory"):
            archive.write(
                Path(__file__).parents[3] / "grader" / "solutions" / "reference" / f"{name}.py",
                f"{EVIL}/assignment/{name}.py",
            )
        for number in range(1000):
            archive.writestr(f"{EVIL}/assignment/{EVIL}{number}.py", "")
            archive.writestr(f"{EVIL}{number}/{EVIL}.txt", "")
    return path
