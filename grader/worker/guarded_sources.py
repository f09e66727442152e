"""The files with the source of what a problem forbids, which student code must not read.

A copy of a forbidden function would compute the right answer and would not be guarded. Python
tells an audit hook about each file that it opens, and about each module in C that it loads from a
file (see forbidden_at_runtime.py). What opens files without telling Python is not loaded, or is
replaced here.
"""

import _imp
import importlib.util
import os
import sys
import warnings
from collections.abc import Callable
from typing import Any

# Modules in C that open files, run Python or start programs without telling an audit hook. Those
# that are loaded already may not be loaded once more, without their traps.
UNHEARD = (
    "readline", "_tkinter", "_posixsubprocess", "_thread", "_interpreters", "_xxsubinterpreters",
    "_testcapi", "_testinternalcapi", "_testlimitedcapi",
)  # fmt: skip


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

    def check_extension(self, path: str) -> None:
        """Check that a module in C may be loaded from a file.

        Raises:
            ImportError: It opens files without telling Python, or the student's code wrote it.
        """
        own = os.path.realpath(os.environ["TMPDIR"])
        if _file(path) in FILES_UNHEARD or os.path.realpath(path).startswith(f"{own}/"):
            raise ImportError(f"{path} may not be loaded in this problem")

    def guard_openers_in_c(self, library: Callable[[], Any]) -> None:
        """Guard functions that open a file without telling Python.

        `library` returns where to register an operator of torch.
        """
        vars(_imp)["create_builtin"] = _create_builtin
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


def _create_builtin(spec: Any, *, _create: Callable[[Any], Any] = _imp.create_builtin) -> Any:
    """Do what `_imp.create_builtin` does, except for the modules above."""
    name = str(spec.name)
    if name in UNHEARD:
        raise ImportError(f"{name} may not be loaded in this problem")
    return _create(importlib.util.spec_from_loader(name, None))


def _file(path: str) -> tuple[int, int] | None:
    """What identifies a file, whatever its name; None if there is none."""
    try:
        found = os.stat(path)
    except (OSError, ValueError):
        return None
    return found.st_dev, found.st_ino


def _files_unheard() -> set[tuple[int, int] | None]:
    """The files of the modules above, as far as they are not part of the interpreter."""
    specs = [importlib.util.find_spec(name) for name in UNHEARD]
    return {_file(spec.origin) for spec in specs if spec and spec.origin} - {None}


FILES_UNHEARD = _files_unheard()
