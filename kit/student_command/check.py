"""Run the public tests, show one row per problem as its tests finish, then what to do next.

The tests run in a subprocess (public_test_runner.py). So the first line is on the screen before
torch is imported, and a test that hangs or crashes does not take this process with it.
"""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import textwrap
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TextIO

import kit
from kit import handing_in
from kit.safe_text import counted, labelled, printable
from kit.student_command import previous_check, progress_markdown, submit
from kit.student_command.previous_check import Files
from kit.student_command.public_outcomes import (
    Failure,
    ProblemProgress,
    RunOutcome,
    addresses_of,
    annotated,
    hints,
    problem_of,
    told,
)
from kit.workflow_commands import annotations

BAR = 16
COLOURS = {"done": "32"} | dict.fromkeys(("not attempted", "to be finished"), "33")
COLOURS |= dict.fromkeys(("failing", "forbidden use", "fails there"), "31")
LOOK_SECONDS = 0.05
GOODBYE_SECONDS = 3.0
PRINTED_LINES = 10
MOST_ENDED = 3  # tests of a problem that may end their process before the rest is left out
LONGEST_LINE = 2_000


@dataclass(frozen=True)
class Options:
    """How the tests are run and shown."""

    page: Path | None = None  # a file for the same results as Markdown
    # Run again whenever a file in assignment/ is saved, and go on to the next problem when all
    # tests pass. Ctrl-C ends a test that is running, or else the command.
    watch: bool = False
    annotate: bool = False  # print the failures as annotations for a GitHub workflow, too
    every: bool = False  # show every failure; go on after a test that takes too long or crashes
    advise: bool = True  # say what to do next, after the first failure
    hint: bool = False  # give one more hint on the first failure than the last time
    # The course's own commands, each with what it does.
    others: Mapping[str, str] = field(default_factory=dict)


def main(
    root: Path, problems: list[dict[str, Any]], course: dict[str, Any], options: Options
) -> int:
    """Run the public tests of these problems, of the course that problems.toml describes.

    Returns:
        0 if all tests pass, 1 if not, 2 if the tests cannot be run or the page cannot be written,
        130 if they were stopped by hand.
    """
    tested, green = [p for p in problems if _has_tests(root, p)], set[str]()
    modules = {p["module"] for p in course["problem"]}
    if os.name == "nt":
        os.system("")  # makes the console of Windows obey the codes for colours
    with (
        os.fdopen(os.dup(1), "w", encoding=sys.stdout.encoding or "utf-8", errors="plain") as out,
        suppress(KeyboardInterrupt),
    ):
        while True:
            code = 130  # if Ctrl-C ends the next run before it is done
            files = Files.now(root, modules)
            run = _Run(root, tested, course, files, out, options)
            code = run.everything()
            if run.changed:
                continue
            if options.page and run.outcome and code != 2:
                try:
                    submit.write(options.page, progress_markdown.render(run.outcome).encode())
                except submit.Refused as e:
                    print(e, file=sys.stderr)
                    return 2
            if options.annotate and run.outcome:
                out.write(annotations(annotated(run.outcome)))
                out.flush()
            if not options.watch or (run.is_stopped and not run.was_in_a_test):
                return code
            if code == 0:
                green |= {p["id"] for p in tested}
            if code == 0 and (after := _next_open(root, course, files, green)):
                out.write(f"\non to {after['id']}\n")
                tested = [after]
                continue
            out.write("\nwatching assignment/; Ctrl-C stops\n")
            out.flush()
            while files.same(root):
                time.sleep(0.3)
            out.write("\033[2J\033[H" if out.isatty() else "\n")
    return code


def _has_tests(root: Path, problem: dict[str, Any]) -> bool:
    return (root / "tests/public" / f"test_{problem['id']}.py").exists()


def _next_open(
    root: Path, course: dict[str, Any], files: Files, green: set[str]
) -> dict[str, Any] | None:
    """The first problem with public tests that is not done, or None."""
    known = previous_check.read(root)
    left = (p for p in course["problem"] if p["id"] not in green and _has_tests(root, p))
    return next((dict(p) for p in left if known.status(p, files) != "done"), None)


class _Run:
    """One run of the tests, and what is on the screen."""

    def __init__(
        self,
        root: Path,
        problems: list[dict[str, Any]],
        course: dict[str, Any],
        files: Files,
        out: TextIO,
        options: Options,
    ) -> None:
        self.outcome: RunOutcome | None = None
        self._asked, self._hinted = options, dict[str, tuple[str, int]]()
        self.changed = False  # a file was saved meanwhile
        self._before = previous_check.read(root)
        since = {p["id"]: self._before.status(p, files) for p in problems}
        order = {"changed": 0, "open": 1, "done": 2}
        self._problems = sorted(problems, key=lambda p: order[since[p["id"]]])
        self._first = [name for name, status in since.items() if status == "changed"]
        # Problems that were already done share one line, unless there is nothing else to show.
        done = {name for name, status in since.items() if status == "done"}
        self._done_before = done
        self._folded = done if len(done) < len(problems) else set()
        self._in_order = problems
        self._root, self._course, self._files, self._out = root, course, files, out
        self._whole = len(problems) == len(course["problem"])
        self._others = options.others if self._whole else {}
        self._live = out.isatty() and os.environ.get("TERM") != "dumb"
        self._rows = {p["id"]: ProblemProgress(p) for p in problems}
        self._failures: list[Failure] = []
        self._notes: list[str] = []
        self._foreseen: dict[str, str] = {}  # texts of notes and refusals, and their places
        self._current: ProblemProgress | None = None
        self._ran: list[str] = []
        self._skipped: set[str] = set()  # problems that are not tested any further
        self._counted: list[dict[str, Any]] = []  # problems whose tests are to be counted only
        self._ended: Counter[str] = Counter()  # tests that ended their process, by problem
        self._stopped: str | None = None
        self._test, self._unreadable, self._paused = "", False, False
        self._ended_by_limit = False

    def everything(self) -> int:
        """Run all tests, show the outcome, and remember it for the next run."""
        self._say_what_starts()
        self._find_what_is_not_python()
        code = None
        try:
            while code is None and not self.changed:
                code = self._one_process()
        except KeyboardInterrupt:
            self._stopped, self.changed = self._stopped or "", False
        if self.changed:
            return 1
        if self._unreadable or (code not in (0, 1, 2) and not self.is_stopped):
            print("the public tests could not be run: see above", file=sys.stderr)
            return 2
        self.outcome = self._finish()
        done = {name for name, row in self._rows.items() if row.status == "done"}
        if self.is_stopped:
            return 130
        self._before.write(self._root, self._files, self._in_order, done, self._hinted)
        return 0 if len(done) == len(self._rows) else 1

    @property
    def is_stopped(self) -> bool:
        """Whether the student has stopped the tests, by Ctrl-C or by leaving the debugger."""
        return self._stopped is not None

    @property
    def was_in_a_test(self) -> bool:
        """Whether a test was running at the end, as it is in an endless loop."""
        return bool(self._test)

    # --- before anything runs

    def _say_what_starts(self) -> None:
        count = len(self._rows)
        text = counted(count, "problem")
        if self._first and len(self._first) < count:
            some = ", ".join(self._first[:3]) + (", …" if len(self._first) > 3 else "")
            text += f"; changed ones first: {some}"
        self._print(text)

    def _find_what_is_not_python(self) -> None:
        """Report missing files and syntax errors at once; their problems are not tested."""
        for module in dict.fromkeys(p["module"] for p in self._problems):
            path = handing_in.path_of(module)
            text, place, shown = _not_python(self._root / path, path)
            if not text:
                continue
            problems = [p for p in self._problems if p["module"] == module]
            names = [p["id"] for p in problems]
            said = told(f"{', '.join(names)}: {text}", problems[0], place, shown)
            self._failures.append(Failure(problems[0], True, said, place, ""))
            self._above(f"  {said.splitlines()[0]}")
            for name in names:
                self._skipped.add(name)
                self._rows[name].ended.append("failed")
                self._counted.append(self._rows[name].problem)

    # --- the process of the tests

    def _one_process(self) -> int | None:
        """Run the remaining tests; return pytest's exit code, or None if a test killed pytest."""
        tested = [p for p in self._problems if p["id"] not in self._skipped]
        left = [p for p in tested if not self._rows[p["id"]].all_ended]
        if not left and not self._counted:
            return 0
        self._ended_by_limit = False
        with tempfile.TemporaryDirectory() as folder:
            events, crash = Path(folder, "events"), Path(folder, "crash")
            events.touch()
            crash.touch()
            # A file, because a command line on Windows has at most 32,767 characters.
            ordered = Path(folder, "order")
            order = {
                "problems": left,
                "counted": self._counted,
                "not_done": [name for name in self._rows if name not in self._done_before],
                "story": self._course.get("story", ""),
                "left_out": self._ran,
                "limits": kit.USUAL_LIMITS | self._course.get("limits", {}),
                "course": {k: self._course[k] for k in ("packages", "files") if k in self._course},
                "crash": str(crash),
            }
            ordered.write_text(json.dumps(order), encoding="utf-8")
            command = [sys.executable, "-m", "kit.student_command.public_test_runner"]
            command += [str(self._root), str(events), str(ordered)]
            with (
                events.open(encoding="utf-8", newline="\n") as lines,
                subprocess.Popen(command, cwd=self._root) as process,
            ):
                try:
                    return self._follow(lines, process, crash)
                except KeyboardInterrupt:
                    self._hear_the_last(lines, process)
                    raise
                finally:
                    if self._paused:
                        self._go_on()
                    if process.poll() is None:
                        process.kill()

    def _follow(self, lines: TextIO, process: "subprocess.Popen[bytes]", crash: Path) -> int | None:
        """Show the events that the process reports, until it has exited."""
        looked = began = time.monotonic()
        waited = 0
        while True:
            ended = process.poll() is not None  # before reading, so that nothing is missed
            for event in _events(lines):
                if waited > 0:
                    self._out.write("\r\033[K")
                waited = -1
                code = self._hear(event)
                if code is not None:
                    return code
            if self._live and 0 <= waited < int(time.monotonic() - began):
                waited = int(time.monotonic() - began)
                self._out.write(f"\r\033[Kstarting Python and the tests … {waited} s")
                self._out.flush()
            if ended:
                return self._died(process.returncode, crash)
            if self._asked.watch and not self._paused and time.monotonic() - looked > 0.5:
                looked = time.monotonic()
                if not self._files.same(self._root):
                    self.changed = True
                    return None
            time.sleep(LOOK_SECONDS)

    def _hear_the_last(self, lines: TextIO, process: "subprocess.Popen[bytes]") -> None:
        """After Ctrl-C, wait a moment for the event that says where the tests stopped."""
        self._stopped = ""
        with suppress(subprocess.TimeoutExpired, KeyboardInterrupt):
            try:
                process.wait(0.5)  # a terminal sends Ctrl-C to both
            except subprocess.TimeoutExpired:
                with suppress(ValueError):  # Windows cannot send it; its console did
                    process.send_signal(signal.SIGINT)
                process.wait(GOODBYE_SECONDS)
        for event in _events(lines):
            self._hear(event)

    def _died(self, code: int, dump: Path) -> int | None:
        """Handle a process that exited without an "end" event: blame the test that was running."""
        if not self._test:
            return None if self._ended_by_limit else 3
        problem = self._rows[problem_of(self._test)].problem
        place = self._crashed_at(dump)
        what = f"{problem['id']}: the test process ended unexpectedly ({_named(code)})"
        text = told(what, problem, place)
        self._ran.append(self._test)
        self._note_outcome(problem["id"], "failed", text, place, self._test)
        self._leave_out_the_rest(problem["id"])
        self._test = ""
        return None

    def _leave_out_the_rest(self, name: str) -> None:
        """After a test that ended its process: test the problem further only for --all."""
        self._ended[name] += 1
        if not self._asked.every or self._ended[name] >= MOST_ENDED:
            self._skipped.add(name)

    def _crashed_at(self, dump: Path) -> str:
        """The student's innermost line in the traceback that Python wrote on a crash, or ""."""
        # Python writes a character that is not ASCII as an escape, such as \xfc.
        package = ascii(str(self._root / "assignment" / "_"))[1:-2]
        text = dump.read_text(encoding="ascii", errors="replace")
        found = re.search(rf'File "{re.escape(package)}(.+?)", line (\d+) in (\S+)', text)
        if not found:
            return ""
        return f"assignment/{found[1].replace(os.sep, '/')}:{found[2]} in {found[3]}"

    def _hear(self, event: dict[str, Any]) -> int | None:
        """Show one event; return pytest's exit code if it was the last."""
        match event["event"]:
            case "tests":
                self._note_counts(event["counts"])
            case "use":
                self._note_use(event)
            case "unreadable":
                self._unreadable = True
                self._print(event["text"])
            case "test":
                self._test = event["test"]
                self._begin(self._rows[event["problem"]])
            case "green":
                self._rows[event["problem"]].story = event["text"]
            case "running" if self._test:
                row = self._rows[problem_of(self._test)]
                place = f" in {event['place']}" if event["place"] else ""
                self._show(row, end="", status=f"{event['seconds']:.0f} s{place}")
            case "printed":
                self._show_printed(event["text"])
            case "outcome":
                self._ran.append(self._test)
                facts = (event.get(key, "") for key in ("text", "place", "test"))
                self._note_outcome(event["problem"], event["outcome"], *facts)
                if event.get("ends"):
                    self._ended_by_limit = True
                    self._leave_out_the_rest(event["problem"])
                self._test = ""
            case "paused":
                self._print("\r\033[K" if self._live else "")
                self._pause()
            case "resumed":
                self._go_on()
            case "stopped":
                self._stopped = event["place"]
            case "end":
                return int(event["code"])
        return None

    def _note_counts(self, counts: dict[str, int]) -> None:
        for name, count in counts.items():
            row = self._rows[name]
            if row.problem in self._counted:
                row.tests = max(1, count)
                self._show(row, end="\n")
            else:
                row.tests = max(row.tests, len(row.ended) + count)
        self._counted = []

    def _pause(self) -> None:
        """Leave the screen and Ctrl-C to the debugger."""
        self._paused = True
        signal.signal(signal.SIGINT, signal.SIG_IGN)

    def _go_on(self) -> None:
        self._paused = False
        signal.signal(signal.SIGINT, signal.default_int_handler)

    def _note_outcome(self, name: str, outcome: str, text: str, *facts: str) -> None:
        row = self._rows[name]
        row.ended.append(outcome)
        if outcome != "passed":
            attempted = outcome == "failed"
            self._failures.append(Failure(row.problem, attempted, text, *facts))
            if attempted and row.status == "failing" and row.ended.count("failed") == 1:
                self._above(f"  {text.splitlines()[0]}")
        self._show(row, end="")

    def _note_use(self, event: dict[str, Any]) -> None:
        if event["text"] in self._foreseen:  # by the process before this one
            return
        is_new = event["place"] not in self._foreseen.values()
        self._foreseen[event["text"]] = event["place"]
        if not event["status"]:
            self._notes.append(event["text"])
            return
        if is_new:
            self._above(f"  {event['text']}")
        row = self._rows[event["problem"]]
        row.foreseen = event["status"]
        text = told(event["text"], row.problem)
        self._failures.append(Failure(row.problem, True, text, event["place"], test=""))

    # --- the screen

    def _finish(self) -> RunOutcome:
        """Print the total, the first failure and the next step, and return the outcome."""
        self._end_row()
        folded = [n for n in self._folded if self._rows[n].status == "done"]
        if folded:
            names = ", ".join(name for name in self._rows if name in folded)
            self._print(self._filled(f"still done ({len(folded)}): {names}"))
        stopped = ""
        if self._stopped is not None:
            stopped = f"stopped{' at ' + self._stopped if self._stopped else ''}"
        rank = {p["id"]: i for i, p in enumerate(self._in_order)}
        failures = sorted(self._failures, key=lambda f: rank[f.problem["id"]])
        shown = (stopped, self._notes, self._whole, self._asked.every, self._others)
        outcome = RunOutcome(list(self._rows.values()), failures, *shown)
        if stopped:
            self._print(f"\n{stopped}")
            return outcome
        self._print(f"\n{outcome.done}, {outcome.passed}")
        if not self._asked.advise:
            return outcome
        if self._asked.every:
            for text in outcome.alike:
                self._print_fitted(f"\n{text}", labelled("", ""))
        elif outcome.first_failure:
            self._print_fitted(f"\nfirst failure\n{outcome.first_failure}", labelled("", ""))
        if self._asked.hint and outcome.to_do:
            self._show_hints(outcome.to_do)
        for note in outcome.notes:
            self._print(f"\nnote: {note}")
        if self._asked.watch and not outcome.to_do and not self._whole:
            return outcome  # `main` goes on to the next problem
        self._print("\nnext")
        for step in outcome.next_step.splitlines():
            self._print_fitted(f"  {step}", "    ")
        for address in addresses_of(self._root, outcome.to_do) if outcome.to_do else ():
            self._print(f"  open {address}")
        return outcome

    def _show_hints(self, failure: Failure) -> None:
        """The hints so far, and one more."""
        name, known = hints(self._root, failure)
        about = f"{name}: {failure.kind}"  # another mistake begins with the first hint
        number = self._before.next_hint(failure.problem, about)
        self._hinted[failure.problem["id"]] = (about, min(number, len(known)))
        for i, text in enumerate(known[:number], 1):
            self._print(f"\nhint {i} of {len(known)}\n{textwrap.indent(text, '  ')}")
        if number < len(known):
            self._print("\nthe same command gives one more hint")

    def _begin(self, row: ProblemProgress) -> None:
        if row is not self._current:
            self._end_row()
            self._current = row
        self._show(row, end="")

    def _end_row(self) -> None:
        row, self._current = self._current, None
        if row is None or row.shown:
            return
        if row.problem["id"] not in self._folded or row.status != "done":
            self._show(row, end="\n")
        elif self._live:
            self._out.write("\r\033[K")
        if row.story and row.status == "done":
            self._print(self._filled(f"  {row.story}"))

    def _show(self, row: ProblemProgress, end: str, status: str = "") -> None:
        """Print a row. On a terminal, overwrite the previous line."""
        if self._paused or (not self._live and not end):
            return
        row.shown = row.shown or bool(end)
        width = max(len(problem_id) for problem_id in self._rows)
        filled = BAR * row.passed // max(1, row.tests)
        status = row.status if end else status or f"running, {len(row.ended)} so far"
        text = f"{row.problem['id']:<{width}}  {row.problem['points']:>2} points  "
        text += f"{'█' * filled}{'·' * (BAR - filled)}  {row.passed:>2}/{row.tests:<2}  "
        room = shutil.get_terminal_size().columns - len(text) - 1
        if self._live:
            status = f"\033[{COLOURS.get(status, '36')}m{status[: max(0, room)]}\033[0m"
            text = f"\r\033[K{text}"
        self._out.write(text + status + end)
        self._out.flush()

    def _show_printed(self, text: str) -> None:
        """What a test printed, above its row."""
        printed = text.splitlines()
        if len(printed) > PRINTED_LINES:
            printed[PRINTED_LINES:] = [f"… {len(printed) - PRINTED_LINES} more lines"]
        for line in printed:
            self._above(f"  | {printable(line, LONGEST_LINE)}")

    def _above(self, text: str) -> None:
        """A line above the row that is being filled."""
        self._out.write(f"\r\033[K{text}\n" if self._live else f"{text}\n")
        self._out.flush()

    def _filled(self, text: str, indent: str = "  ") -> str:
        """The text in lines that fit the terminal; what does not fit goes on with this indent."""
        width = min(100, shutil.get_terminal_size().columns)
        whole: dict[str, Any] = {
            "break_long_words": False,
            "break_on_hyphens": False,
        }  # addresses and names
        lines = text.split("\n")
        return "\n".join(textwrap.fill(x, width, subsequent_indent=indent, **whole) for x in lines)

    def _print_fitted(self, text: str, indent: str) -> None:
        """Print a text whose lines a log takes as they are."""
        self._print(self._filled(text, indent) if self._live else text)

    def _print(self, text: str) -> None:
        self._out.write(text + "\n")
        self._out.flush()


def _named(code: int) -> str:
    """The exit code of a process that ended, in words."""
    if code < 0:
        return f"signal {-code}"
    # A crash on Windows has a code such as 0xC0000005, which is known by this spelling.
    return f"exit code {code}" if code < 256 else f"exit code 0x{code:08X}"


def _not_python(file: Path, path: str) -> tuple[str, str, tuple[str, ...]]:
    """Why a module cannot be imported, where, and the lines to show; empty if it can be parsed."""
    try:
        error = submit.parse_error(file.read_bytes())
    except FileNotFoundError:
        return f"{path} is missing; put it back (it is in the course's bundle)", path, ()
    except OSError as e:
        return f"{path} cannot be read: {e.strerror}", path, ()
    if error is None:
        return "", "", ()
    return f"raised SyntaxError: {error.message}", error.at(path), error.shown


def _events(lines: TextIO) -> Iterator[dict[str, Any]]:
    """The lines that are complete."""
    while True:
        at = lines.tell()
        line = lines.readline()
        if not line.endswith("\n"):
            lines.seek(at)
            return
        yield json.loads(line)
