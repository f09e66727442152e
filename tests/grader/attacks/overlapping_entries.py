"""A zip with a hundred modules that all share the same compressed bytes.

group: hostile files
kind: archive
refused: more than 10 MiB | is damaged
holds: the total uncompressed size is limited, however few compressed bytes there are.
"""

import zipfile
from copy import copy
from pathlib import Path


def build(folder: Path) -> Path:
    path = folder / "submission.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("assignment/m.py", b"#" * 2**20)
        for number in range(100):
            twin = copy(archive.filelist[0])
            twin.filename = twin.orig_filename = f"assignment/m{number}.py"
            archive.filelist.append(twin)
    return path
