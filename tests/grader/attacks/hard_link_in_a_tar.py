"""A tar in which a module is a hard link to a file on the host.

group: hostile files
kind: archive
refused: not a plain file
holds: links are never followed.
"""

import tarfile
from pathlib import Path


def build(folder: Path) -> Path:
    path = folder / "submission.tar.gz"
    with tarfile.open(path, "w:gz") as archive:
        link = tarfile.TarInfo("assignment/linear.py")
        link.type, link.linkname = tarfile.LNKTYPE, "/etc/passwd"
        archive.addfile(link)
    return path
