"""A zip with an entry whose path leads out of the archive by means of backslashes.

group: hostile files
kind: archive
refused: leads out of the submission
holds: a backslash counts as a path separator too.
"""

import zipfile
from pathlib import Path


def build(folder: Path) -> Path:
    path = folder / "submission.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("assignment/linear.py", "")
        archive.writestr(zipfile.ZipInfo("assignment\\..\\..\\attack-escaped.py"), "")
        archive.writestr(zipfile.ZipInfo("C:\\attack-escaped.py"), "")
    return path
