"""The commands of `python -m assignment`.

`check` runs the public tests and shows progress; `submit` makes the zip to hand in.

Neither command needs the grader. Exit codes: 0 for success, 1 if a test does not pass, 2 if the
call or the submission is rejected, 130 after Ctrl-C.
"""

import argparse
import difflib
import importlib.metadata
import importlib.util
import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import kit

if sys.version_info < kit.OLDEST_PYTHON:  # checked before importing a module that 3.10 lacks
    needed, found = (".".join(map(str, each[:2])) for each in (kit.OLDEST_PYTHON, sys.version_info))
    sys.exit(f"Python {needed} or later is needed; this is {found} ({sys.executable})")

import tomllib

from kit.safe_text import print_anywhere

SWITCHES = {  # of `check`
    "all": "show every failure and not only the first; each test has the grader's time limit",
    "hint": "give one more hint on the first failure each time",
    "watch": "run again whenever you save a file, and go on to the next problem, until Ctrl-C",
    "annotations": "also print the failures as annotations, which GitHub shows beside the lines of "
    "code",
}
ACTIVATE = r".venv\Scripts\activate" if os.name == "nt" else ". .venv/bin/activate"


def main(root: Path, arguments: list[str], others: dict[str, str] | None = None) -> int:
    """Run one command and return its exit code.

    Args:
        root: The folder that contains assignment/ and tests/.
        arguments: The words of the command line.
        others: The course's own commands, which its `__main__` runs, each with a line for the help.
    """
    print_anywhere()
    try:
        code = _main(root, arguments, others or {})
        sys.stdout.flush()
        return code
    except KeyboardInterrupt:
        print("\nstopped", file=sys.stderr)
        return 130
    except BrokenPipeError:  # `| head` has read enough; Python would complain at its end
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return 0


def _main(root: Path, arguments: list[str], others: dict[str, str]) -> int:
    course = read_course(root)
    problems = course["problem"]
    ids = [p["id"] for p in problems]
    parser = _parser(others)
    if arguments and arguments[0] in ids:
        parser.error(f"did you mean `python -m assignment check {arguments[0]}`?")
    parsed = parser.parse_args(arguments or ["check"])
    if parsed.command == "submit":
        from kit.student_command import submit

        return submit.main(root, course, parsed.out, anyway=parsed.anyway)
    for name in parsed.problem:
        if name not in ids:
            near = difflib.get_close_matches(name, ids, n=1)
            known = f"did you mean {near[0]}?" if near else f"there are {', '.join(ids)}"
            parser.error(f"there is no problem {name}; {known}")
    page = parsed.markdown
    if page and (page.is_dir() or not page.absolute().parent.is_dir()):
        parser.error(f"{page} cannot be written: it has to be a file in an existing folder")
    if missing := [name for name in packages(course) if not _is_installed(name)]:
        print(
            f"{', '.join(missing)} not installed in {sys.executable}: activate the environment of "
            f"the course (`{ACTIVATE}`), or install into it (`python -m pip install .`)",
            file=sys.stderr,
        )
        return 2
    from kit.student_command import check

    chosen = [p for p in problems if p["id"] in (parsed.problem or ids)]
    options = check.Options(
        parsed.markdown, parsed.watch, parsed.annotations, parsed.all, True, parsed.hint, others
    )
    return check.main(root, chosen, course, options)


def read_course(root: Path) -> dict[str, Any]:
    """What problems.toml contains; `problem` has the problems in the order of the handout."""
    with (root / "assignment" / "problems.toml").open("rb") as f:
        return tomllib.load(f)


def packages(course: dict[str, Any]) -> list[str]:
    """The names of the packages that the course's tests need, without versions."""
    named = [*course.get("packages", kit.USUAL_PACKAGES), "pytest"]
    return list(map(kit.name_of, named))


def _is_installed(package: str) -> bool:
    """Whether a package is installed, which need not have a module of its name."""
    with suppress(importlib.metadata.PackageNotFoundError):
        return bool(importlib.metadata.version(package))
    return importlib.util.find_spec(package.replace("-", "_").replace(".", "_")) is not None


def _parser(others: dict[str, str]) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m assignment", description="Your progress, and your zip to hand in."
    )
    commands = parser.add_subparsers(dest="command")
    about = "run the public tests and show what to do next (the default)"
    check = commands.add_parser("check", help=about)
    check.add_argument("problem", nargs="*", help="only these problems", metavar="PROBLEM")
    page = "also write the results as Markdown, for a workflow's summary"
    check.add_argument("--markdown", type=Path, metavar="FILE", help=page)
    for name, about in SWITCHES.items():
        check.add_argument(f"--{name}", action="store_true", help=about)
    about = "check that your modules would be accepted, and write them to a zip"
    add = commands.add_parser("submit", help=about).add_argument
    add("out", nargs="?", type=Path, default="submission.zip", help="default: submission.zip")
    add("--anyway", action="store_true", help="write it even if a problem would earn nothing")
    for name, about in others.items():
        commands.add_parser(name, help=about)
    return parser
