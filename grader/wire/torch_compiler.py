"""Postpone the import of torch's compiler until something needs it.

torch.optim, torch.utils.checkpoint and dispatch modes import `torch._dynamo` when they are first
used, to tell the compiler what it must not compile. The import takes a second and 40 MiB. This
module puts a placeholder for that package into sys.modules. The placeholder answers these calls,
which have no effect without a compiler; whatever else is asked of it makes it import the package.

A submission that may need the compiler (`is_needed_by`) never meets the placeholder: the zygote
imports the package and its default backend, inductor, before it forks. So nothing is charged to the
student, and no tripwire is armed yet that the imports could touch.

Inductor needs a C++ compiler. A box without one runs what inductor would compile as it is, because
a solution that is right on its author's machine is right here, too.

This module runs on both sides of the sandbox.
"""

import importlib
import importlib.util
import os
import re
import sys
import tempfile
from collections.abc import Iterable, Sequence
from contextlib import suppress
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

PACKAGE = "torch._dynamo"
INDUCTOR = "torch._inductor.compile_fx"
# What else compiles functions of torch while it is imported, which a tripwire may have replaced.
SCRIPTED = "torch.distributed.optim"
CONFIG = f"{PACKAGE}.config"  # torch.utils.checkpoint reads it; it imports nothing of the package
# Code that needs the compiler, or calls something in torch that imports it, contains one of these.
NEEDS = re.compile(
    rb"compile|dynamo|inductor|deterministic|export|profile|torch\.func|import func\b"
    rb"|functorch|vmap|jvp|vjp|jacrev|jacfwd|hessian|flex_attention|distributed"
)


def is_needed_by(sources: Iterable[bytes]) -> bool:
    """Whether one of these sources may need the compiler."""
    return any(NEEDS.search(source) for source in sources)


def is_postponed() -> bool:
    """Whether the placeholder is in place."""
    return isinstance(sys.modules.get(PACKAGE), Postponed)


def import_now(*, has_cxx: bool) -> None:
    """Import the compiler and its default backend if the import was postponed.

    Args:
        has_cxx: Whether there is a C++ compiler.
    """
    package = sys.modules.get(PACKAGE)
    if not isinstance(package, Postponed):
        return
    package.import_package()
    os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "1")  # else it starts processes now
    os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", tempfile.gettempdir())
    inductor = importlib.import_module(INDUCTOR)
    with suppress(ImportError):  # torch can be built without it
        importlib.import_module(SCRIPTED)
    if not has_cxx:
        vars(inductor)["compile_fx"] = _as_it_is


def _as_it_is(graph: Any, *_: Any, **__: Any) -> Any:
    """A backend that compiles nothing, like torch's "eager"."""
    return graph


def postpone_import() -> None:
    """Put the placeholder in place of torch._dynamo, unless that has been imported already."""
    if PACKAGE in sys.modules:
        return
    import torch

    spec = importlib.util.find_spec(PACKAGE)
    assert spec is not None
    package = importlib.util.module_from_spec(spec)
    package.__class__ = Postponed
    sys.modules[PACKAGE] = torch._dynamo = package
    sys.meta_path.insert(0, Finder())


class Postponed(ModuleType):
    """Has three functions of torch._dynamo and its `config`; becomes it when asked for more."""

    @staticmethod
    def disable(fn: Any = None, recursive: bool = True, **_: Any) -> Any:
        """Return a function that must not be compiled; also usable as a decorator."""
        return (lambda fn: fn) if fn is None else fn

    @staticmethod
    def graph_break(msg: str = "") -> None:
        """Do nothing, because nothing is being compiled."""

    @staticmethod
    def allow_in_graph(fn: Any) -> Any:
        """Return the function; einops calls this with torch before 2.8."""
        return fn

    def __getattr__(self, name: str) -> Any:
        # Python looks for names like __wrapped__ in every module, for example in inspect.
        if name.startswith("__") and name != "__all__":
            raise AttributeError(f"module {PACKAGE!r} has no attribute {name!r}")
        if name == "config":
            return importlib.import_module(CONFIG)
        self.import_package()
        return getattr(self, name)

    def import_package(self) -> None:
        """Execute the package in this module."""
        assert self.__spec__ is not None
        assert self.__spec__.loader is not None
        self.__class__ = ModuleType  # type: ignore[assignment]
        try:
            self.__spec__.loader.exec_module(self)
        except BaseException:
            self.__class__ = Postponed
            raise


class Finder(MetaPathFinder):
    """Imports the package before one of its modules, as Python itself would."""

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Find only modules that the package has imported in the meantime."""
        package = sys.modules.get(PACKAGE)
        is_inside = name.startswith(f"{PACKAGE}.") and name != CONFIG
        if not is_inside or not isinstance(package, Postponed):
            return None
        package.import_package()
        module = sys.modules.get(name)
        if module is None:
            return None
        # Python would load it once more if its own spec said how.
        module.__spec__ = ModuleSpec(name, Imported(module))
        return module.__spec__


class Imported(Loader):
    """Loads a module that has been imported already."""

    def __init__(self, module: ModuleType) -> None:
        self._module, self._spec = module, module.__spec__

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """Return the module itself."""
        return self._module

    def exec_module(self, module: ModuleType) -> None:
        """Give the module its own spec again."""
        module.__spec__ = self._spec
