"""A zip whose directory claims that a module of 64 MiB has a hundred bytes.

group: hostile files
kind: archive
refused: is damaged | more than 10 MiB
holds: the grader does not trust the size in the header.
"""

import zipfile
from pathlib import Path


def build(folder: Path) -> Path:
    path = folder / "submission.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("assignment/linear.py", b"#" * 2**26)
        archive.infolist()[0].file_size = 100
    return path
