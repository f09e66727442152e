"""A right submission with one more file, whose name no file system accepts.

group: hostile files
target: tensor_memory
kind: archive
refused: is too long: the name 'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa…' in it has 303 bytes
holds: a file that could not be written in the sandbox is the student's fault, never the grader's.
"""

import zipfile
from pathlib import Path


def build(folder: Path) -> Path:
    path = folder / "submission.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("assignment/tensor_memory.py", "")
        archive.writestr(f"assignment/{'a' * 300}.py", "x = 1\n")
    return path
