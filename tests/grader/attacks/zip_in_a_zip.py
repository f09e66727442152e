"""A zip whose assignment/ is another zip, and another one in that.

group: hostile files
kind: archive
refused: assignment/ folder
holds: nothing is unpacked twice.
"""

import io
import zipfile
from pathlib import Path


def build(folder: Path) -> Path:
    inner = b""
    for name in ("linear.py", "assignment.zip", "assignment.zip"):
        buffer = io.BytesIO()
        with zipfile.ZipFile(buffer, "w") as archive:
            archive.writestr(name, inner)
        inner = buffer.getvalue()
    path = folder / "submission.zip"
    path.write_bytes(inner)
    return path
