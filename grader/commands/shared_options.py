"""The options that several commands share, and what their values mean."""

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar, get_args

import typer

from grader import __version__
from grader.base import files
from grader.base.errors import UsageError, no_such
from grader.commands.app import App
from grader.course.courses import Course, Problem
from grader.sandbox import gpus, levels
from grader.sandbox.gpus import Gpu
from grader.sandbox.levels import Isolation
from kit.safe_text import one_line

Choice = TypeVar("Choice", bound=str)


def option(name: str, text: str = "", **more: Any) -> Any:
    """An option, such as `--roster FILE.csv`, and its help unless a docstring has it; see `App`."""
    flag, _, metavar = name.partition(" ")
    return typer.Option(flag, help=text, metavar=metavar or None, **more)


def argument(metavar: str | None = None, text: str = "", **more: Any) -> Any:
    return typer.Argument(help=text, metavar=metavar, **more)


app = App(
    name="grader",
    help="Grade submissions in a sandbox, and prove that the hidden tests can be trusted.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

Only = Annotated[list[str] | None, option("--only PROBLEM", "Only this problem; may be repeated.")]
Seed = Annotated[int, option("--seed", "Seed of the tests' random inputs.")]
LevelOption = Annotated[
    str,
    option(
        "--isolation",
        "auto (the strongest level that works on this machine), bubblewrap, landlock "
        "(weaker, for root in a container) or none (for debugging, never for grades).",
    ),
]
DeviceOption = Annotated[
    str,
    option("--device", "cpu or cuda. Tests for the other device wait for a run on that device."),
]
Verbose = Annotated[
    bool, option("--verbose", "Show every failure and rule, not only the most expensive.")
]


def _course_of_all(context: typer.Context, folder: Path | None) -> Path | None:
    """The --course of a command, or else the one given before the command's name."""
    return folder or context.find_root().obj


Folder = Annotated[
    Path | None,
    option(
        "--course FOLDER",
        "The folder of another course (default: the course that comes with the grader).",
        callback=_course_of_all,
    ),
]
Annotations = Annotated[
    bool,
    option(
        "--annotations",
        "Print the failures as annotations, too: in a workflow of the student's "
        "repository, GitHub shows them beside the lines of code.",
    ),
]


@app.callback(invoke_without_command=True)
def _options_of_all_commands(
    context: typer.Context,
    course_folder: Annotated[
        Path | None, option("--course FOLDER", "The course, for any command.")
    ] = None,
    version: Annotated[bool, option("--version", "Print the version.")] = False,
) -> None:
    context.obj = course_folder
    if version:
        files.say(f"{__version__}\n")
        raise typer.Exit
    if context.invoked_subcommand is None:
        raise UsageError("expected a command, got none; `grader --help` lists them")


def note(text: str, longest: int = 2_000) -> None:
    """Tell a person something about what a command does, in a line on stderr."""
    print(f"grader: {one_line(text, longest)}", file=sys.stderr)


def chosen(course: Course, only: list[str] | None, option: str = "--only") -> list[Problem]:
    """The problems that an option names, by default all; a UsageError if there is none."""
    known = {p.id: p for p in course.problems}
    for problem_id in only or []:
        if problem_id not in known:
            raise UsageError(f"{option} {problem_id}: {no_such('problem', problem_id, known)}")
    return [known[p] for p in known if not only or p in only]


def one_of(option: str, value: str, *allowed: Choice) -> Choice:
    for choice in allowed:
        if choice == value:
            return choice
    listed = f"{', '.join(allowed[:-1])} or {allowed[-1]}" if allowed[1:] else allowed[0]
    raise UsageError(f"{option} {value}: expected {listed}")


def require_one(command: str, options: Mapping[str, object]) -> None:
    """Check that exactly one of these options is given."""
    found = [name for name, value in options.items() if value]
    if len(found) != 1:
        *others, last = options
        expected = f"{', '.join(others)} or {last}"
        raise UsageError(f"{command}: expected {expected}, found {' and '.join(found) or 'none'}")


def level_named(name: str) -> Isolation:
    """The requested isolation level; for `auto`, the strongest that works on this machine."""
    level: Isolation | Literal["auto"] = one_of("--isolation", name, "auto", *get_args(Isolation))
    return levels.strongest() if level == "auto" else level


@contextmanager
def device_named(name: str) -> Iterator[Gpu | None]:
    """The CUDA device for the submissions, or None for a CPU; an error if none works."""
    if name == "cpu":
        yield None
        return
    with gpus.opened() as found:
        yield found
