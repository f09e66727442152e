"""Run the public tests and show one row per problem, then the first failure and the next step."""

import os
import re
import shutil
import sys
import textwrap
from pathlib import Path
from types import TracebackType
from typing import Any, TextIO

import pytest

from tests import expect
from tests.student_side import forbidden, markdown, submit
from tests.student_side.forbidden import ForbiddenUse
from tests.student_side.progress import Failure, Outcome, Progress

BAR = 16
COLOURS = {
    "done": "32",
    "not attempted": "33",
    "to be finished": "33",
    "failing": "31",
    "forbidden use": "31",
}


def main(root: Path, problems: list[dict[str, Any]], page: Path | None = None) -> int:
    """Run the public tests of these problems and show the results.

    Args:
        root: The folder that contains assignment/ and tests/.
        problems: The problems to test.
        page: A file for the same results as Markdown.

    Returns:
        0 if all tests pass, 1 if not, 2 if the tests cannot be run or the page cannot be written.
    """
    files = {p["id"]: root / "tests" / "public" / f"test_{p['id']}.py" for p in problems}
    files = {problem_id: file for problem_id, file in files.items() if file.exists()}
    # pytest captures file descriptor 1, so we write to a duplicate.
    with os.fdopen(os.dup(1), "w", encoding="utf-8", errors="replace") as out:
        listed = [p for p in problems if p["id"] in files]
        run = _Run(root, [Progress(p) for p in listed], forbidden.uses_under(root, listed), out)
        options = [
            "-c",
            str(root / "pyproject.toml"),
            "--rootdir",
            str(root),
            "-o",
            "addopts=--import-mode=importlib",
        ]
        options += ["-p", "no:terminal", "-p", "no:cacheprovider"]
        code = pytest.main([*options, *map(str, files.values())], plugins=[run])
        if run.unreadable or code not in (
            pytest.ExitCode.OK,
            pytest.ExitCode.TESTS_FAILED,
            pytest.ExitCode.INTERRUPTED,
        ):
            print("the public tests could not be run: see above", file=sys.stderr)
            return 2
        outcome = run.finish(interrupted=code == pytest.ExitCode.INTERRUPTED)
    if page:
        try:
            submit.write(page, markdown.render(outcome).encode())
        except submit.Refused as e:
            print(e, file=sys.stderr)
            return 2
    return 0 if all(row.status == "done" for row in outcome.rows) else 1


class _Run:
    """A pytest plugin that keeps the rows and prints each row as soon as its problem is done."""

    def __init__(
        self, root: Path, rows: list[Progress], uses: list[ForbiddenUse], out: TextIO
    ) -> None:
        self.rows = {row.problem["id"]: row for row in rows}
        self._forbidden = {use.problem["id"]: use for use in uses if use.certain}
        self._notes = [str(use) for use in uses if not use.certain]
        self.unreadable = False
        self._package = str(root / "assignment") + os.sep
        self._root = root
        self._out = out
        self._live = out.isatty() and os.environ.get("TERM") != "dumb"
        self._failures: list[Failure] = []
        self._current: Progress | None = None
        self._stopped_at = ""

    # --- pytest's hooks

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Run the problems in the order of the handout."""
        order = list(self.rows)
        items.sort(key=lambda item: order.index(_problem_id(item)))
        for item in items:
            self.rows[_problem_id(item)].tests += 1

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Show the full error of an unreadable public test: it is not the student's mistake."""
        if report.failed:
            self.unreadable = True
            self._print(f"{report.nodeid} cannot be read:\n{report.longreprtext}")

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        """Show the problem that is running."""
        row = self.rows[_problem_of_node(nodeid)]
        if row is not self._current:
            self._end_row()
            self._current = row
        self._show(row, end="")

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_makereport(self, item: pytest.Item, call: pytest.CallInfo[None]) -> None:
        """Record how a test ended, and its failure if there is one."""
        error = call.excinfo.value if call.excinfo else None
        if isinstance(error, KeyboardInterrupt) or (call.when != "call" and error is None):
            return
        row = self.rows[_problem_id(item)]
        attempted = not isinstance(error, NotImplementedError)
        row.ended.append("passed" if error is None else "failed" if attempted else "not attempted")
        if error is not None:
            self._failures.append(self._failure(row.problem, item, error))

    def pytest_keyboard_interrupt(self, excinfo: pytest.ExceptionInfo[BaseException]) -> None:
        """Record where Ctrl-C stopped the run, most likely in an endless loop."""
        self._stopped_at = self._place(excinfo.value.__traceback__)

    # --- output

    def finish(self, *, interrupted: bool) -> Outcome:
        """Print the total, the first failure and the next step, and return the outcome."""
        self._end_row()
        stopped = (
            f"stopped{' at ' + self._stopped_at if self._stopped_at else ''}" if interrupted else ""
        )
        outcome = Outcome(list(self.rows.values()), self._failures, stopped, self._notes)
        self._print(f"\n{outcome.done}, {outcome.passed}")
        if stopped:
            self._print(f"\n{stopped}")
            return outcome
        if outcome.first_failure:
            self._print(f"\nfirst failure\n{outcome.first_failure}")
        for note in outcome.notes:
            self._print(f"\nnote: {note}")
        self._print(f"\nnext\n{textwrap.indent(outcome.next_step, '  ')}")
        return outcome

    def _show(self, row: Progress, end: str) -> None:
        """Print a row. On a terminal, overwrite the previous line."""
        if not self._live and not end:
            return
        width = max(len(problem_id) for problem_id in self.rows)
        filled = BAR * row.passed // max(1, row.tests)
        status = row.status if end else f"running, {len(row.ended)} so far"
        text = (
            f"{row.problem['id']:<{width}}  {row.problem['points']:>2} points  "
            f"{'█' * filled}{'·' * (BAR - filled)}"
        )
        text += f"  {row.passed:>2}/{row.tests:<2}  "
        room = shutil.get_terminal_size().columns - len(text) - 1
        if self._live:
            status = f"\033[{COLOURS.get(status, '36')}m{status[: max(0, room)]}\033[0m"
            text = f"\r\033[K{text}"
        self._out.write(text + status + end)
        self._out.flush()

    def _end_row(self) -> None:
        row, self._current = self._current, None
        if row is None:
            return
        if use := self._forbidden.get(row.problem["id"]):
            row.forbidden = True
            text = f"{use}\n  {'see':<9} handout §{row.problem['section']}"
            self._failures.append(Failure(row.problem, True, text, use.place, test=""))
        self._show(row, end="\n")

    def _print(self, text: str) -> None:
        self._out.write(text + "\n")
        self._out.flush()

    # --- failures

    def _failure(self, problem: dict[str, Any], item: pytest.Item, error: BaseException) -> Failure:
        line = item.location[1]
        test = f"{item.location[0]}:{line + 1} {item.name}" if line is not None else item.nodeid
        place = self._place(error.__traceback__)
        if isinstance(error, expect.Mismatch):
            place = self._definition(problem["module"], error.of)
            text = expect.render(error, problem=problem["id"], section=problem["section"])
        else:
            text = (
                f"{problem['id']}: raised {type(error).__name__}: "
                f"{str(error)[:400] or 'without a message'}"
            )
            if isinstance(error, SyntaxError) and (error.filename or "").startswith(self._package):
                place = f"{self._short(error.filename or '')}:{error.lineno}"
            text += f"\n  {'at':<9} {place}" if place else ""
            text += f"\n  {'see':<9} handout §{problem['section']}"
        return Failure(problem, not isinstance(error, NotImplementedError), text, place, test)

    def _place(self, traceback: TracebackType | None) -> str:
        """The innermost line of the student's code in a traceback, or "" if there is none."""
        found = ""
        while traceback:
            code = traceback.tb_frame.f_code
            if code.co_filename.startswith(self._package):
                found = (
                    f"{self._short(code.co_filename)}:{traceback.tb_lineno} in {code.co_qualname}"
                )
            traceback = traceback.tb_next
        return found

    def _definition(self, module: str, name: str) -> str:
        """Where the function or class that answered is defined, or "" if it cannot be found."""
        file = Path(self._package, f"{module}.py")
        source = (
            file.read_text(encoding="utf-8", errors="replace").splitlines()
            if file.is_file()
            else []
        )
        wanted = re.compile(rf"(def|class) {re.escape(name.split('.')[0])}\b")
        line = next((number for number, text in enumerate(source, 1) if wanted.match(text)), None)
        return f"{self._short(str(file))}:{line} in {name}" if line else ""

    def _short(self, file: str) -> str:
        return os.path.relpath(file, self._root)


def _problem_id(item: pytest.Item) -> str:
    return item.path.stem.removeprefix("test_")


def _problem_of_node(nodeid: str) -> str:
    return Path(nodeid.split("::")[0]).stem.removeprefix("test_")
