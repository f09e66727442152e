"""A folder in which a module is a FIFO that nothing ever writes to.

group: hostile files
kind: archive
refused: not a plain file
holds: the grader does not wait for the FIFO.
"""

import os
from pathlib import Path


def build(folder: Path) -> Path:
    path = folder / "submission"
    (path / "assignment").mkdir(parents=True)
    os.mkfifo(path / "assignment" / "linear.py")
    return path
