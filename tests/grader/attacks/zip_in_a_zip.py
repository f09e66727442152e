"""A zip whose assignment/ is another zip, which contains a third one.

group: hostile files
kind: archive
refused: contains another archive
holds: a zip inside a zip is not unpacked.
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
