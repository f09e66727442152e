"""A zip with two modules of one name, for two readers to see different ones.

group: hostile files
kind: archive
refused: twice
holds: what is graded is never in doubt.
"""

import warnings
import zipfile
from pathlib import Path


def build(folder: Path) -> Path:
    path = folder / "submission.zip"
    with warnings.catch_warnings(action="ignore"), zipfile.ZipFile(path, "w") as archive:
        archive.writestr("assignment/linear.py", "honest = True")
        archive.writestr("assignment/linear.py", "honest = False")
    return path
