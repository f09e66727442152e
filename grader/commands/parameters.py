"""The parameters of a command, as their annotations describe them."""

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, get_args, get_origin

from typer.models import ArgumentInfo, OptionInfo

from grader.base.outputs import Writes


@dataclass(frozen=True)
class Parameter:
    """A parameter of a command, as its annotation describes it."""

    key: str  # its name in Python
    name: str  # its name on the command line, as in `--json` or `SUBMISSION`
    options: tuple[str, ...]  # the names of the option; empty for an argument
    kind: Any  # the type of its value, as in `Path | None`
    marks: tuple[object, ...]

    @property
    def writes(self) -> Writes | None:
        """The mark of an output; None for an input."""
        return next((mark for mark in self.marks if isinstance(mark, Writes)), None)

    @property
    def is_path(self) -> bool:
        """Whether it names a file or folder, or several."""
        return Path in (self.kind, *get_args(self.kind), *self._items)

    @property
    def _items(self) -> tuple[Any, ...]:
        """The types of a list's items, as in `list[Path] | None`."""
        lists = [one for one in (self.kind, *get_args(self.kind)) if get_origin(one) is list]
        return tuple(item for one in lists for item in get_args(one))

    @property
    def takes_text(self) -> bool:
        """Whether its value is any text."""
        return self.kind is str

    @property
    def expected(self) -> str:
        """What its value has to be, in words; empty if any text may be right."""
        kinds = {int: "a whole number", float: "a number"}
        kind = next((kinds[one] for one in (self.kind, *get_args(self.kind)) if one in kinds), "")
        least = next(
            (one.min for one in self.marks if isinstance(one, ArgumentInfo | OptionInfo)), None
        )
        return kind if least is None else f"{kind} of at least {least:g}"


def parameters_of(function: Callable[..., object]) -> list[Parameter]:
    """The parameters of a command."""
    return [
        _described(key, parameter.annotation)
        for key, parameter in inspect.signature(function).parameters.items()
    ]


def _described(key: str, annotation: Any) -> Parameter:
    kind, *marks = get_args(annotation) if get_origin(annotation) is Annotated else (annotation,)
    of_typer = next((mark for mark in marks if isinstance(mark, OptionInfo | ArgumentInfo)), None)
    options: tuple[str, ...] = ()
    if isinstance(of_typer, OptionInfo):
        # In an annotation, Typer keeps the first name of an option in `default`.
        written = [str(one) for one in (of_typer.default, *(of_typer.param_decls or ()))]
        options = tuple(one for one in written if one.startswith("--"))
        options = options or (f"--{key.replace('_', '-')}",)
    name = options[0] if options else (of_typer and of_typer.metavar) or key.upper()
    return Parameter(key, name, options, kind, tuple(marks))
