"""A tar whose entry has an absolute path.

group: hostile files
kind: archive
refused: leads out of the submission
holds: absolute paths are refused.
"""

import io
import tarfile
from pathlib import Path


def build(folder: Path) -> Path:
    path = folder / "submission.tar.gz"
    with tarfile.open(path, "w:gz") as archive:
        for name in ("assignment/linear.py", "/tmp/attack-escaped.py"):
            archive.addfile(tarfile.TarInfo(name), io.BytesIO())
    return path
