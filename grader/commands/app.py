"""The command-line application: it checks each command's paths before the command runs.

A parameter that names a file or folder to write has the mark `Writes` in its annotation. Every
other path is an input, and so are the course's own files.
"""

import functools
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import typer
from typer.models import CommandInfo

from grader.base import files, output_paths
from grader.base.errors import CourseFault, UsageError
from grader.base.output_paths import Named
from grader.commands import parameters
from grader.commands.parameters import Parameter, parameters_of
from grader.course import courses
from kit.safe_text import one_line


class App(typer.Typer):
    """The commands, each of which checks its paths before it runs.

    The help of an option is in the docstring of its command, under `Args:`.
    """

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._texts: set[str] = set()  # the options whose value is a text, which may be empty
        self._parameters: dict[str, list[Parameter]] = {}  # of each command

    def command(self, *args: Any, **options: Any) -> Callable[[Any], Any]:
        """Add a function as a command, like `typer.Typer.command`."""
        add = super().command(*args, **options)

        def added(function: Callable[..., None]) -> Callable[..., None]:
            help_of_all, texts = parameters.documented(function)
            own = parameters_of(function, texts)
            name = str(args[0] if args else function.__name__)
            self._parameters[name] = own
            for one in own:
                if one.takes_text:
                    self._texts |= set(one.options)

            @functools.wraps(function)
            def checked(**values: Any) -> None:
                _check(own, values)
                course = [values[one.key] for one in own if one.name == "--course"]
                with _faults_of(next(iter(course), None)):
                    function(**values)

            checked.__doc__ = help_of_all
            add(checked)
            return function

        return added

    def __call__(self, *args: Any, **options: Any) -> Any:
        """Run the command line; an impossible one is a UsageError."""
        self._refuse_empty(sys.argv[1:])
        try:
            with self._only_the_named():
                code = super().__call__(*args, **options | {"standalone_mode": False})
        except parameters.ERRORS as e:
            if (text := parameters.help_of(e)) is not None:
                files.say(text)
                raise SystemExit(2) from None
            raise UsageError(parameters.sentence(e, sys.argv[1:], self._parameters)) from None
        if code:
            raise SystemExit(code)

    @contextmanager
    def _only_the_named(self) -> Iterator[None]:
        """Give Typer only the named command: to work out all parameters takes longer than many."""
        every = self.registered_commands
        place = 3 if sys.argv[1:2] == ["--course"] else 1
        named = [one for one in every if sys.argv[place : place + 1] == [name_of(one)]]
        self.registered_commands = named or every
        try:
            yield
        finally:
            self.registered_commands = every

    def _refuse_empty(self, arguments: list[str]) -> None:
        """Refuse an empty path: Python would take it for the current folder."""
        for before, argument in zip(["", *arguments], arguments, strict=False):
            option, equals, value = argument.partition("=")
            is_empty = equals and not value and option.startswith("--")
            named = option if is_empty else before if before.startswith("--") else "an argument"
            if (not argument or is_empty) and named not in self._texts:
                raise UsageError(f"{named} is empty: is a variable of the shell not set?")


def name_of(command: CommandInfo) -> str | None:
    """A command's name on the command line."""
    return command.name or getattr(command.callback, "__name__", None)


@contextmanager
def _faults_of(root: Path | None) -> Iterator[None]:
    """Report a file that the course lacks as a fault of the course."""
    try:
        yield
    except OSError as e:
        path = Path(e.filename) if isinstance(e.filename, str) else Path()
        if not any(path.is_relative_to(one) for one in courses.own_files(root)):
            raise
        raise CourseFault(f"{path}, which the course needs: {e.strerror}") from None


def _check(parameters: Iterable[Parameter], values: Mapping[str, Any]) -> None:
    given = [
        (one, Named(one.name, path))
        for one in parameters
        if one.is_path and values.get(one.key) is not None
        for path in (values[one.key] if isinstance(values[one.key], list) else [values[one.key]])
    ]
    for _, named in given:
        _refuse_impossible(named)
    root = next((named.path for _, named in given if named.name == "--course"), None)
    inputs = [named for one, named in given if one.writes is None and named.name != "--course"]
    written = [(named, one.writes) for one, named in given if one.writes]
    if written:
        output_paths.check(written, inputs, [*courses.own_files(root), courses.PACKAGE])


def _refuse_impossible(named: Named) -> None:
    """Refuse a path that no file can have, such as one with a name of 300 characters."""
    try:
        named.path.exists()
    except OSError as e:
        raise UsageError(f"{one_line(str(named), 300)} cannot be used: {e.strerror}") from None
