"""What a box shows of a program that submissions may start."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Tool:
    """A program.

    Attributes:
        files: Its files and folders, each with the path where it must be.
        headers: A folder that has to be in `include` beside Python's own `lib`; None without one.
        environment: The environment variables of its users.
    """

    files: tuple[tuple[Path, Path], ...]
    headers: Path | None
    environment: Mapping[str, str]
