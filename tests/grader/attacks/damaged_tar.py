"""A truncated tar.gz, whose last header promises more data than there is.

group: hostile files
kind: archive
refused: is damaged
holds: the refusal is one sentence without a traceback.
"""

import io
import os
import tarfile
from pathlib import Path


def build(folder: Path) -> Path:
    path = folder / "submission.tar.gz"
    with tarfile.open(path, "w:gz") as archive:
        module = tarfile.TarInfo("assignment/linear.py")
        module.size = 100_000
        archive.addfile(module, io.BytesIO(os.urandom(100_000)))
    path.write_bytes(path.read_bytes()[:50_000])
    return path
