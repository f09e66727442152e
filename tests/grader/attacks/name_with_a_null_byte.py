"""A zip whose only source is named like a text file up to the place where some programs cut it.

group: hostile files
target: tensor_memory
kind: archive
refused: is damaged: the path 'assignment/tensor_memory.py\\x00.txt' contains a null byte
holds: a path that programs read in different ways is refused.
"""

import zipfile
from pathlib import Path


def build(folder: Path) -> Path:
    path = folder / "submission.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("assignment/tensor_memory.pyN.txt", "x = 1\n")
    path.write_bytes(path.read_bytes().replace(b"pyN.txt", b"py\0.txt"))
    return path
