"""A folder whose assignment/ is a symbolic link to another folder of the host.

group: hostile files
kind: archive
refused: assignment
holds: the link is not followed.
"""

from pathlib import Path


def build(folder: Path) -> Path:
    path = folder / "submission"
    path.mkdir()
    (path / "assignment").symlink_to(
        Path(__file__).parents[3] / "grader" / "solutions" / "reference"
    )
    return path
