"""A zip whose entry climbs out of it.

group: hostile files
kind: archive
refused: leads out of the submission
holds: nothing is unpacked by name, and nothing of the archive is graded.
"""

import zipfile
from pathlib import Path


def build(folder: Path) -> Path:
    path = folder / "submission.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("assignment/linear.py", "")
        archive.writestr("assignment/../../../../../../tmp/attack-escaped.py", "")
    return path
