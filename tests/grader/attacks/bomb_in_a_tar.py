"""A tar.gz of half a megabyte with an honest module and a file that unpacks to half a gigabyte.

group: hostile files
kind: archive
refused: unpacks to more than
holds: unpacking stops at the limit.
"""

import io
import tarfile
from pathlib import Path


class Zeros(io.RawIOBase):
    def read(self, size=-1):
        return bytes(size)


def build(folder: Path) -> Path:
    path = folder / "submission.tar.gz"
    with tarfile.open(path, "w:gz", compresslevel=1) as archive:
        archive.addfile(tarfile.TarInfo("assignment/linear.py"), io.BytesIO())
        large = tarfile.TarInfo("large.bin")
        large.size = 2**29
        archive.addfile(large, Zeros())
    return path
