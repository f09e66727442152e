"""A zip that needs a password.

group: hostile files
kind: archive
refused: encrypted
holds: the grader does not ask for a password, and says that the zip is encrypted.
"""

import zipfile
from pathlib import Path


def build(folder: Path) -> Path:
    path = folder / "submission.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("assignment/linear.py", "x = 1")
    data = bytearray(path.read_bytes())
    for signature, offset in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        data[data.index(signature) + offset] |= 1
    path.write_bytes(data)
    return path
