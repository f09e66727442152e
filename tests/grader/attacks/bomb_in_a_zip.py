"""A zip of two megabytes whose modules unpack to a gigabyte.

group: hostile files
kind: archive
refused: more than 10 MiB
holds: an entry over the size limit is refused before anything is unpacked.
"""

import zipfile
from pathlib import Path


def build(folder: Path) -> Path:
    path = folder / "submission.zip"
    with (
        zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive,
        archive.open("assignment/linear.py", "w") as f,
    ):
        for _ in range(256):
            f.write(b"#" * 2**20)
    return path
