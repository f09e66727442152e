"""A tar in which a module is the device file /dev/zero.

group: hostile files
kind: archive
refused: not a plain file
holds: the device file is neither created nor read.
"""

import tarfile
from pathlib import Path


def build(folder: Path) -> Path:
    path = folder / "submission.tar.gz"
    with tarfile.open(path, "w:gz") as archive:
        device = tarfile.TarInfo("assignment/linear.py")
        device.type, device.devmajor, device.devminor = tarfile.CHRTYPE, 1, 5
        archive.addfile(device)
    return path
