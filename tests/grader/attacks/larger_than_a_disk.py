"""A file of a terabyte, almost all of it a hole, named .zip.

group: hostile files
kind: archive
refused: larger than
holds: the size is looked at before the content.
"""

import os
from pathlib import Path


def build(folder: Path) -> Path:
    path = folder / "submission.zip"
    path.touch()
    os.truncate(path, 2**40)
    return path
