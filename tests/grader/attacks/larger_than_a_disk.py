"""A sparse file of a terabyte, named .zip.

group: hostile files
kind: archive
refused: larger than
holds: the size is checked before the content is read.
"""

import os
from pathlib import Path


def build(folder: Path) -> Path:
    path = folder / "submission.zip"
    path.touch()
    os.truncate(path, 2**40)
    return path
