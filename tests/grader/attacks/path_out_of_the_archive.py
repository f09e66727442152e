"""A zip with an entry whose path leads out of the archive.

group: hostile files
kind: archive
refused: leads out of the submission
holds: nothing is unpacked to the path in an entry, and the whole archive is refused.
"""

import zipfile
from pathlib import Path


def build(folder: Path) -> Path:
    path = folder / "submission.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("assignment/linear.py", "")
        archive.writestr("assignment/../../../../../../tmp/attack-escaped.py", "")
    return path
