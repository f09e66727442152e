"""A zip of fifty thousand empty files.

group: hostile files
kind: archive
refused: more than 10000 entries
holds: the number of entries is limited as well as their size.
"""

import zipfile
from pathlib import Path


def build(folder: Path) -> Path:
    path = folder / "submission.zip"
    with zipfile.ZipFile(path, "w") as archive:
        for number in range(50_000):
            archive.writestr(f"assignment/m{number}.py", "")
    return path
