"""A zip with two modules of the same name, so that two readers may see different ones.

group: hostile files
kind: archive
refused: twice
holds: the archive is refused, so it is never unclear which module is graded.
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
