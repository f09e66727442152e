"""Build examples/sample.zip, a typical submission, reproducibly from examples/sample/."""

import zipfile
from pathlib import Path

HERE = Path(__file__).parent
FIXED_TIME = (2026, 1, 1, 0, 0, 0)


def build(target: Path) -> None:
    """Write the zip."""
    with zipfile.ZipFile(target, "w") as archive:
        for path in sorted((HERE / "sample").rglob("*")):
            if path.is_file() and "__pycache__" not in path.parts:
                info = zipfile.ZipInfo(path.relative_to(HERE / "sample").as_posix(), FIXED_TIME)
                info.compress_type = zipfile.ZIP_DEFLATED
                info.external_attr = 0o100644 << 16
                archive.writestr(info, path.read_bytes())


if __name__ == "__main__":
    build(HERE / "sample.zip")
