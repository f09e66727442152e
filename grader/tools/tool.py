"""What a box shows of a program that submissions may start."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Tool:
    """A program."""

    # Its files and folders, each with the path where it must be.
    files: tuple[tuple[Path, Path], ...]
    # a folder that has to be in `include` beside Python's own `lib`; None without one.
    headers: Path | None
    environment: Mapping[str, str]  # the environment variables of its users
