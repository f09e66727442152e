"""Whatever can be removed by deleting its files: each is a module in a folder of its kind."""

import importlib
import pkgutil
from types import ModuleType
from typing import Any


def modules(folder: str) -> dict[str, ModuleType]:
    """Import the modules that a folder has, in alphabetical order; by name.

    Args:
        folder: The folder as a package, such as "grader.course.removable".
    """
    paths = importlib.import_module(folder).__path__
    names = sorted(module.name for module in pkgutil.iter_modules(paths))
    return {name: importlib.import_module(f"{folder}.{name}") for name in names}


def objects(folder: str, name: str) -> dict[str, Any]:
    """The object of this name of each module that a folder has.

    Its key is the module's name without this one: DOWNLOAD of `x_download` has the key `x`.
    """
    ending = f"_{name.lower()}"
    return {key.removesuffix(ending): getattr(one, name) for key, one in modules(folder).items()}
