"""The parameters of a command, as their annotations describe them, and wrong command lines.

Typer's own messages fill five lines, and name neither the value nor what the command takes.
"""

import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, get_args, get_origin

import typer
from typer.models import ArgumentInfo, OptionInfo

from grader.base.errors import did_you_mean
from grader.base.output_paths import Writes
from kit.safe_text import one_line


@dataclass(frozen=True)
class Parameter:
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
        return self.kind is str

    @property
    def expected(self) -> str:
        """What its value has to be, in words; empty if any text may be right."""
        kinds = {int: "a whole number", float: "a number"}
        kind = next((kinds[one] for one in (self.kind, *get_args(self.kind)) if one in kinds), "")
        least = next((m.min for m in self.marks if isinstance(m, ArgumentInfo | OptionInfo)), None)
        return kind if least is None else f"{kind} of at least {least:g}"


def documented(function: Callable[..., object]) -> tuple[str, dict[str, str]]:
    """A command's help, and that of its parameters, from the docstring."""
    text, _, arguments = (inspect.getdoc(function) or "").partition("\n\nArgs:\n")
    found = re.findall(r"^    (\w+): (.*(?:\n {8}.*)*)", arguments, re.MULTILINE)
    return text, {name: " ".join(said.split()) for name, said in found}


def parameters_of(
    function: Callable[..., object], texts: Mapping[str, str] | None = None
) -> list[Parameter]:
    """The parameters of a command; those in `texts` get this help."""
    return [
        _described(key, parameter.annotation, (texts or {}).get(key, ""))
        for key, parameter in inspect.signature(function).parameters.items()
    ]


def _described(key: str, annotation: Any, text: str) -> Parameter:
    kind, *marks = get_args(annotation) if get_origin(annotation) is Annotated else (annotation,)
    of_typer = next((mark for mark in marks if isinstance(mark, OptionInfo | ArgumentInfo)), None)
    if of_typer is not None and text:
        of_typer.help = text
    options: tuple[str, ...] = ()
    if isinstance(of_typer, OptionInfo):
        # In an annotation, Typer keeps the first name of an option in `default`.
        written = [str(one) for one in (of_typer.default, *(of_typer.param_decls or ()))]
        options = tuple(one for one in written if one.startswith("--"))
        options = options or (f"--{key.replace('_', '-')}",)
    name = options[0] if options else (of_typer and of_typer.metavar) or key.upper()
    return Parameter(key, name, options, kind, tuple(marks))


# Every error of a command line: of click or, since Typer contains a copy of click, of Typer.
ERRORS: tuple[type[Exception], ...] = tuple(
    one for one in typer.BadParameter.__mro__ if one.__name__ == "ClickException"
)
SHOWN = 100  # characters of what was found


def help_of(error: Any) -> str | None:
    """The help that answers a command line without words; empty if Typer has printed it."""
    is_help = type(error).__name__ == "NoArgsIsHelpError"
    return str(error.format_message()) if is_help else None


def sentence(
    error: Any, arguments: Sequence[str], parameters: Mapping[str, Sequence[Parameter]]
) -> str:
    said = " ".join(str(error.format_message()).split())
    context = getattr(error, "ctx", None)
    command = getattr(context, "command", None)
    if found := re.match(r"No such command '(.*?)'", said):
        meant = did_you_mean(found[1], list(getattr(command, "commands", ()))) or ";"
        return f"there is no command {_shown(found[1])}{meant} `grader --help` lists the commands"
    where = f"{command.name}: " if command is not None and command.name != "grader" else ""
    if found := re.match(r"Got unexpected extra argument.*? \((.*)\)$", said):
        several = "arguments" if " " in found[1] else "argument"
        return f"{where}unexpected {several} {_shown(found[1])}{_usage(command)}"
    match type(error).__name__:
        case "NoSuchOption":
            near = next(iter(error.possibilities or ()), "")
            meant = f"; did you mean {near}?" if near else _usage(command)
            return f"{where}there is no option {_shown(error.option_name)}{meant}"
        case "MissingParameter":
            return f"{where}{_name(error.param)} is missing{_usage(command)}"
        case "BadOptionUsage":
            needs = "takes no value" if "not take a value" in said else "needs a value"
            return f"{where}{_shown(error.option_name)} {needs}"
        case "BadParameter" if error.param is not None:
            name = _name(error.param)
            own = parameters.get(command.name, ()) if command is not None else ()
            expected = next((one.expected for one in own if one.name == name), "")
            if expected:
                return f"{name}{_value(error.param, where, arguments)}: expected {expected}"
    return f"{where}{said}"


def _usage(command: Any) -> str:
    """How the command is called, with what it cannot do without."""
    if command is None or command.name in (None, "grader"):
        return "; `grader --help` lists the commands"
    words = []
    for one in command.params:
        if one.param_type_name == "argument":
            words.append(_name(one) if one.required else f"[{_name(one)}]")
    for one in command.params:
        if one.param_type_name == "option" and one.required:
            words.append(f"{one.opts[0]} {one.metavar or one.name.upper()}")
    called = " ".join(["grader", command.name, *words])
    return f"; call it as `{called}` (`grader {command.name} --help` lists the options)"


def _name(parameter: Any) -> str:
    if parameter.param_type_name == "argument":
        return str(parameter.metavar or parameter.name.upper())
    return str(next((one for one in parameter.opts if one.startswith("--")), parameter.opts[0]))


def _value(parameter: Any, where: str, arguments: Sequence[str]) -> str:
    """The value that was given to an option or to the first argument, after a space."""
    for before, argument in zip(["", *arguments], arguments, strict=False):
        option, equals, value = argument.partition("=")
        is_first = f"{before}: " == where and not argument.startswith("-")
        if before in parameter.opts or (is_first and parameter.param_type_name == "argument"):
            return f" {_shown(argument)}"
        if equals and option in parameter.opts:
            return f" {_shown(value)}"
    return ""


def _shown(text: str) -> str:
    return one_line(text, SHOWN)
