"""The files with the source of what a problem forbids, which student code must not read.

A copy of a forbidden function would compute the right answer and would not be guarded. Python
tells an audit hook about each file that it opens (see tripwire.py); what opens files without
telling Python is replaced here.
"""

import os
import sys
import warnings
from collections.abc import Callable
from typing import Any

# Modules that open files without telling Python.
OPEN_FILES = ("readline",)


class GuardedSources:
    """Files that must not be read by any name.

    They are compared as files, because a file has many names: links, names below /proc, and names
    in a folder that is given by its descriptor, which Python does not tell an audit hook.
    """

    def __init__(self) -> None:
        self._files: set[tuple[int, int]] = set()

    def add(self, *paths: str) -> None:
        """Guard these files, if they exist."""
        self._files |= {file for path in paths if (file := _file(path))}

    def check(self, path: Any) -> Any:
        """Return the path, unless it may lead to a guarded file.

        Raises:
            PermissionError: It may.
        """
        name = os.fsdecode(path)
        names = [name]
        if not name.startswith("/"):
            names += [f"/proc/self/fd/{number}/{name}" for number in os.listdir("/proc/self/fd")]
        if any(_file(each) in self._files for each in names):
            raise PermissionError(f"{name} may not be read in this problem")
        return path

    def guard_openers_in_c(self, library: Callable[[], Any]) -> None:
        """Guard functions that open a file without telling Python.

        Args:
            library: Returns where to register an operator of torch.
        """
        modules: dict[str, Any] = sys.modules
        modules.update(dict.fromkeys(OPEN_FILES))  # None: an import fails
        if "torch" in sys.modules:
            self._guard_torch(library())

    def _guard_torch(self, library: Any) -> None:
        """Guard torch's functions that open a file."""
        import torch

        opened: Any = torch.UntypedStorage.from_file

        def storage(filename: Any, *args: Any, **kwargs: Any) -> Any:
            return opened(self.check(filename), *args, **kwargs)

        def tensor(filename: str, shared: bool | None = None, size: int = 0, **options: Any) -> Any:
            dtype = options.get("dtype") or torch.get_default_dtype()
            data = storage(filename, bool(shared), size * dtype.itemsize)
            return torch.empty(0, dtype=dtype).set_(data, 0, (size,), (1,))

        setattr(torch.UntypedStorage, "from_file", staticmethod(storage))  # noqa: B010 - for mypy
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch warns that a kernel is replaced
            library.impl("from_file", tensor, "CPU")


def _file(path: str) -> tuple[int, int] | None:
    """What identifies a file, whatever its name; None if there is none."""
    try:
        found = os.stat(path)
    except (OSError, ValueError):
        return None
    return found.st_dev, found.st_ino
