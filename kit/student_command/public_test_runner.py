"""Run public tests in a separate process, and report each event as one line of JSON.

    python -m kit.student_command.public_test_runner ROOT EVENTS ORDER

`check` starts this process, reads the lines of the file EVENTS as they come, and shows them. The
file ORDER is JSON: the problems in the order in which they are tested, those whose tests are only
counted, those that were not done before, the module with the course's story, the tests that are
left out, the limits of a test, and the file to which Python writes a traceback if it crashes. If a
test exceeds the limits, this process exits, and `check` starts another one for the remaining tests.
"""

import ast
import bdb
import faulthandler
import gc
import io
import json
import linecache
import os
import pdb
import re
import signal
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import redirect_stdout, suppress
from pathlib import Path
from traceback import FrameSummary, extract_tb, walk_stack, walk_tb
from types import FrameType, TracebackType
from typing import Any

# Ctrl-C while torch is imported shows no traceback.
signal.signal(signal.SIGINT, signal.SIG_DFL)

gc.set_threshold(100_000)  # importing torch creates many objects and hardly any garbage

import pytest  # noqa: E402

from kit import expect  # noqa: E402
from kit.safe_text import message_of, printable, slow_import, worth_a_look  # noqa: E402
from kit.student import StudentPackage, from_cause  # noqa: E402
from kit.student_command import mismatch_pictures  # noqa: E402
from kit.student_command.hand_in_warnings import foreseen_under  # noqa: E402
from kit.student_command.public_outcomes import problem_of, told  # noqa: E402
from kit.student_command.submit import parse_error_of  # noqa: E402

LOOK_SECONDS = 0.25
SLOW_SECONDS = 2.0  # after which a test that is still running is told once a second
STORY_SECONDS = 2.0  # that a sentence for a green problem may take
PRINTED = 2_000  # characters of a test's output that are shown
CALL = re.compile(r"\bstudent\.\w+\.(\w+)\(")


def main(root: Path, events: Path, order: dict[str, Any]) -> None:
    """Run the tests of some problems, and count those of others."""
    problems: list[dict[str, Any]] = [*order["counted"], *order["problems"]]
    # Relative ones, because pytest reads brackets in the name of a folder as a test's parameters.
    files = [f"tests/public/test_{p['id']}.py" for p in problems]
    settings = root / "pyproject.toml"
    options = ["-c", str(settings) if settings.is_file() else os.devnull, "--rootdir", str(root)]
    # Without its settings, pytest would run a conftest.py of any folder above.
    options += ["--confcutdir", str(root)]
    options += ["-o", "addopts=--import-mode=importlib", "-p", "kit.fixtures"]
    # pytest's own debugger needs the plugin that prints, and we print ourselves.
    for plugin in ("terminal", "cacheprovider", "debugging", "faulthandler"):
        options += ["-p", f"no:{plugin}"]
    options += [f"--deselect={test}" for test in order["left_out"]]
    with (
        events.open("a", encoding="utf-8", newline="\n", buffering=1) as out,
        open(order["crash"], "w", encoding="utf-8") as dump,
    ):
        faulthandler.enable(dump)
        events_out = Events(out)
        for use in foreseen_under(root, order["course"], order["problems"]):
            facts = {"text": use.text, "place": use.place, "status": use.status}
            events_out.say("use", problem=use.problem["id"], **facts)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        only_counted = {p["id"] for p in order["counted"]}
        runner = Runner(root, problems, order["limits"], events_out, only_counted)
        story = Story(order["story"], order["not_done"], events_out)
        code = pytest.main([*options, *files], plugins=[runner, *([story] if story.module else [])])
        is_right = code == pytest.ExitCode.NO_TESTS_COLLECTED and not order["problems"]
        events_out.say("end", code=0 if is_right else int(code))


class Events:
    """The lines that `check` reads."""

    def __init__(self, out: Any) -> None:
        self._out = out

    def say(self, event: str, **facts: Any) -> None:
        """Write one line."""
        self._out.write(json.dumps({"event": event, **facts}) + "\n")


class Story:
    """A pytest plugin that tells a sentence of the course's story when a problem turns green."""

    def __init__(self, module: str, not_done: list[str], events: Events) -> None:
        self.module, self._events = module, events
        self._left = dict.fromkeys(not_done, 0)  # tests that have not passed

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Count the tests of the problems that were not done before."""
        for item in session.items:
            if (problem := problem_of(item.nodeid)) in self._left:
                self._left[problem] += 1

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """After a problem's last test, tell the sentence, for which its own code is called."""
        problem = problem_of(report.nodeid)
        if report.when != "call" or not report.passed or problem not in self._left:
            return
        self._left[problem] -= 1
        if not self._left[problem]:
            # A thread that can be left behind, if the call does not end.
            teller = threading.Thread(target=self._tell, args=(problem,), daemon=True)
            teller.start()
            teller.join(STORY_SECONDS)

    def _tell(self, problem: str) -> None:
        with suppress(BaseException), redirect_stdout(io.StringIO()):
            package, _, module = self.module.rpartition(".")
            told = getattr(StudentPackage(package), module).told(problem, StudentPackage())
            self._events.say("green", problem=problem, text=told)


class Runner:
    """A pytest plugin that reports how each test ended, and stops a test that takes too long."""

    def __init__(
        self,
        root: Path,
        problems: list[dict[str, Any]],
        limits: dict[str, Any],
        events: Events,
        only_counted: set[str],
    ) -> None:
        self._only_counted = only_counted  # problems whose modules are not Python
        self._problems = {p["id"]: p for p in problems}
        self._package = str(root / "assignment") + os.sep
        self._root, self._limits, self._events = root, limits, events
        self._test = ""
        self._watch: threading.Event | None = None
        self._capture: Any = None
        self._paused = False
        self._outcome: dict[str, Any] = {}

    # --- pytest's hooks

    def pytest_configure(self, config: pytest.Config) -> None:
        """Let `breakpoint()` and `pdb.set_trace()` stop where the student wants."""
        self._capture = config.pluginmanager.getplugin("capturemanager")
        sys.breakpointhook = self._stop_here
        pdb.set_trace = self._stop_here

    @pytest.hookimpl(trylast=True)  # after pytest has taken out the tests that ran before
    def pytest_collection_modifyitems(
        self, config: pytest.Config, items: list[pytest.Item]
    ) -> None:
        """Run the problems in the given order."""
        config.option.tbstyle = "no"  # half of the time went into texts that nobody reads
        order = list(self._problems)
        items.sort(key=lambda item: order.index(problem_of(item.nodeid)))
        counts = dict.fromkeys(order, 0)
        for item in items:
            counts[problem_of(item.nodeid)] += 1
        self._events.say("tests", counts=counts)
        items[:] = [i for i in items if problem_of(i.nodeid) not in self._only_counted]

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Report the full error of an unreadable public test: it is not the student's mistake."""
        if report.failed:
            text = f"{report.nodeid} cannot be read:\n{report.longreprtext}"
            self._events.say("unreadable", text=text)

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        """Report which test is running, and watch its time."""
        self._test = nodeid
        problem = problem_of(nodeid)
        self._events.say("test", problem=problem, test=nodeid)
        limits = {**self._limits, **self._problems[problem].get("limits", {})}
        self._watch = threading.Event()
        watch, given = self._end_what_takes_too_long, (self._watch, limits)
        threading.Thread(target=watch, args=given, daemon=True).start()

    def pytest_runtest_logfinish(self) -> None:
        """Stop watching."""
        if self._watch:
            self._watch.set()
        if self._paused:
            self._paused = False
            self._capture.resume_global_capture()
            self._events.say("resumed")

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_makereport(self, item: pytest.Item, call: pytest.CallInfo[None]) -> None:
        """Note how a test ended, and why."""
        error = call.excinfo.value if call.excinfo else None
        if isinstance(error, KeyboardInterrupt) or (call.when != "call" and error is None):
            return
        if isinstance(error, bdb.BdbQuit):
            self._events.say("stopped", place=self._place(error.__traceback__))
            item.session.shouldstop = "the debugger was left"
            return
        attempted = not isinstance(error, NotImplementedError)
        outcome = "passed" if error is None else "failed" if attempted else "not attempted"
        failure = {} if error is None else self._failure(item, error)
        self._outcome = {"problem": problem_of(item.nodeid), "outcome": outcome, **failure}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Report what the test printed, and how it ended."""
        if report.when == "call" and report.capstdout.strip():
            self._events.say("printed", text=report.capstdout.rstrip()[-PRINTED:])
        if self._outcome:
            self._events.say("outcome", **self._outcome)
        self._outcome = {}

    def pytest_keyboard_interrupt(self, excinfo: pytest.ExceptionInfo[BaseException]) -> None:
        """Report where Ctrl-C stopped the run, most likely in an endless loop."""
        if not isinstance(excinfo.value, pytest.Session.Interrupted):  # that was the debugger
            self._events.say("stopped", place=self._place(excinfo.value.__traceback__))

    # --- limits

    def _end_what_takes_too_long(self, over: threading.Event, limits: dict[str, Any]) -> None:
        """Wait for the end of a test; exit this process if the test exceeds a limit."""
        wall, cpu = time.monotonic(), time.process_time()
        said = wall + SLOW_SECONDS - 1.0
        while not over.wait(LOOK_SECONDS):
            if self._paused:
                return
            if time.monotonic() - said > 1.0:
                said = time.monotonic()
                place = self._place_of(_main_frame())
                self._events.say("running", seconds=said - wall, place=place)
            used = time.process_time() - cpu
            if used > limits["cpu_seconds"]:
                self._give_up(f"{limits['cpu_seconds']:g} s of processor time")
            if time.monotonic() - wall > limits["wall_seconds"]:
                self._give_up(f"{limits['wall_seconds']:g} s")

    def _give_up(self, limit: str) -> None:
        frame = _main_frame()
        problem = self._problems[problem_of(self._test)]
        module = self._imported(frame)
        said = f"still running after {limit}, the limit of a test"
        text = f"{problem['id']}: {slow_import(module, limit) if module else said}"
        facts = self._told_at(text, self._place_of(frame), problem)
        self._events.say("outcome", problem=problem["id"], outcome="failed", **facts, ends=True)
        os._exit(0)

    # --- the debugger

    def _stop_here(self, *_: Any, **__: Any) -> None:
        """Stop in the debugger, on the terminal, without a limit."""
        if not self._paused:
            self._paused = True
            self._events.say("paused")
            self._capture.suspend_global_capture(in_=True)
        pdb.Pdb().set_trace(sys._getframe(1))

    # --- failures

    def _failure(self, item: pytest.Item, error: BaseException) -> dict[str, Any]:
        problem = self._problems[problem_of(item.nodeid)]
        line = item.location[1]
        test = f"{item.location[0]}:{line + 1} {item.name}" if line is not None else item.nodeid
        place = self._place(error.__traceback__)
        if isinstance(error, expect.Mismatch):
            text = expect.render(error, problem=problem["id"], section=problem.get("section", ""))
            return {
                "text": "\n".join(filter(None, [text, mismatch_pictures.picture(error)])),
                "place": self._definition(problem["module"], error.of),
                "test": test,
            }
        said = message_of(str(error) + from_cause(error))
        shown: Sequence[str] = ()
        if isinstance(error, SyntaxError) and (error.filename or "").startswith(self._package):
            file = Path(error.filename or "")
            wrong = parse_error_of(error, file.read_bytes() if file.is_file() else b"")
            place = wrong.at(self._short(error.filename or ""))
            said, shown = wrong.message, wrong.shown
        raised = printable(type(error).__name__, 100)
        raised += f": {printable(said, 400) or 'without a message'}"
        if not place and (in_test := _innermost(error.__traceback__, str(item.path))):
            return {**self._failure_in_the_test(raised, in_test, problem), "test": test}
        text = f"{problem['id']}: raised {raised}"
        inputs = _inputs_of(error.__traceback__, str(item.path))
        more = {"inputs": inputs, "hint": getattr(error, "hint", "") or worth_a_look(raised)}
        return {**self._told_at(text, place, problem, shown, **more), "test": test}

    def _failure_in_the_test(
        self, raised: str, in_test: FrameSummary, problem: dict[str, Any]
    ) -> dict[str, Any]:
        """An exception outside the student's code, as after an answer that the test cannot use.

        The line of the test is told, and the function is the one that it called there or above.
        """
        lines = linecache.getlines(in_test.filename)
        line, until = in_test.lineno or 1, in_test.end_lineno or in_test.lineno
        begin = next((n for n in range(line, 1, -1) if lines[n - 1].startswith("def ")), 1)
        calls = CALL.findall("".join(lines[begin - 1 : until]))
        asked = calls[-1] if calls else ""
        where = f"{self._short(in_test.filename)}:{line}"
        head = " · ".join(filter(None, (problem["id"], asked)))
        text = f"{head}: the test cannot go on: {raised}"
        shown, hint = [printable(in_test.line or "", 200)], worth_a_look(raised)
        facts = self._told_at(text, where, problem, shown, hint=hint)
        return {**facts, "place": self._definition(problem["module"], asked) if asked else ""}

    def _told_at(
        self, text: str, place: str, problem: dict[str, Any], shown: Sequence[str] = (), **more: str
    ) -> dict[str, Any]:
        text = told(text, problem, place, shown, **more)
        return {"text": text, "place": place, "test": self._test}

    def _place(self, traceback: TracebackType | None) -> str:
        """The innermost line of the student's code in a traceback, or "" if there is none."""
        told = [self._told_frame(frame, line) for frame, line in walk_tb(traceback)]
        return next(filter(None, reversed(told)), "")

    def _place_of(self, frame: FrameType) -> str:
        """The innermost line of the student's code that is running, or "" if there is none."""
        return next(filter(None, (self._told_frame(*place) for place in walk_stack(frame))), "")

    def _imported(self, frame: FrameType) -> str:
        """The student's module that is being imported, or "" if there is none."""
        modules = (f for f, _ in walk_stack(frame) if f.f_code.co_name == "<module>")
        names = (f.f_code.co_filename for f in modules if f.f_globals.get("__name__") != "__main__")
        return next((self._short(name) for name in names if name.startswith(self._package)), "")

    def _told_frame(self, frame: FrameType, line: int) -> str:
        """A frame as a file, a line and a function, if it is the student's."""
        code = frame.f_code
        if not code.co_filename.startswith(self._package):
            return ""
        return f"{self._short(code.co_filename)}:{line} in {code.co_qualname}"

    def _definition(self, module: str, name: str) -> str:
        """Where the function or class that answered is defined, or "" if it cannot be found."""
        file = Path(self._package, *module.split(".")).with_suffix(".py")
        if not file.is_file():
            return ""
        source = file.read_text(encoding="utf-8", errors="replace")
        owner, _, member = map(re.escape, name.partition("."))
        begin = re.search(rf"^(def|class) {owner}\b", source, re.MULTILINE)
        if not begin:
            return ""
        method = re.compile(rf".*(?:\n .*|\n)*?\n +def {member}\b").match(source, begin.end())
        at, what = (method.end(), name) if member and method else (begin.end(), owner)
        line = 1 + source.count("\n", 0, at)
        return f"{self._short(str(file))}:{line} in {what}"

    def _short(self, file: str) -> str:
        return Path(os.path.relpath(file, self._root)).as_posix()


def _main_frame() -> FrameType:
    return sys._current_frames()[threading.main_thread().ident or 0]


def _inputs_of(places: TracebackType | None, file: str) -> str:
    """The `inputs` that a test has set for the call that raised, and would have shown after it.

    What an earlier round of a loop has set belongs to another call.
    """
    frames = [(f, line) for f, line in walk_tb(places) if f.f_code.co_filename == file]
    frame, call = frames[-1] if frames else (None, 0)
    inputs = frame.f_locals.get("inputs") if frame else None
    if frame is None or not isinstance(inputs, str):
        return ""
    nodes = list(ast.walk(ast.parse("".join(linecache.getlines(file)))))
    loops = [n for n in nodes if isinstance(n, ast.For) and n.lineno <= call <= (n.end_lineno or 0)]
    begin = max([frame.f_code.co_firstlineno, *(loop.lineno for loop in loops)])
    statements = [n for n in nodes if isinstance(n, ast.Assign)]
    ends = {id(n): stated.end_lineno or 0 for stated in statements for n in ast.walk(stated)}
    named = sorted(
        (ends.get(id(n), n.lineno), isinstance(n.ctx, ast.Store))
        for n in nodes
        if isinstance(n, ast.Name) and n.id == "inputs"
    )
    is_set = any(sets and begin <= line < call for line, sets in named)
    _, sets_again = next((one for one in named if one[0] >= call), (0, True))
    return inputs if is_set and not sets_again else ""


def _innermost(places: TracebackType | None, file: str) -> FrameSummary | None:
    """The innermost frame of a file in a traceback, if there is one."""
    frames = [frame for frame in extract_tb(places) if frame.filename == file]
    return frames[-1] if frames else None


if __name__ == "__main__":
    ROOT, EVENTS, ORDER = map(Path, sys.argv[1:])
    main(ROOT, EVENTS, json.loads(ORDER.read_text(encoding="utf-8")))
