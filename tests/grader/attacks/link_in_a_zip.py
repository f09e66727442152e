"""A zip in which a module is a symbolic link to a file on the host.

group: hostile files
kind: archive
refused: not a plain file
holds: links are never followed.
"""

import stat
import zipfile
from pathlib import Path


def build(folder: Path) -> Path:
    path = folder / "submission.zip"
    with zipfile.ZipFile(path, "w") as archive:
        link = zipfile.ZipInfo("assignment/linear.py")
        link.external_attr = (stat.S_IFLNK | 0o777) << 16
        archive.writestr(link, "../../../../grader/solutions/reference/linear.py")
    return path
