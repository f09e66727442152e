"""The progress that a long command tells while it runs."""

import io
import time

import pytest
from rich.console import Console

from grader.classroom.batches import BatchProgress, Running
from grader.commands import progress_line
from grader.commands.shared_options import note
from grader.report.shared_wording import duration


def test_the_time_to_go_is_an_estimate_from_what_was_done(monkeypatch):
    """No estimate is shown before the first result or after the last."""
    monkeypatch.setattr(time, "monotonic", lambda: 600.0)
    batch = BatchProgress(400, started=0.0)
    assert batch.lines() == ["graded 0 of 400, 400 left"]
    batch.done, batch.faults = 100, 2
    said = "graded {} of 400, 2 with a fault of the grader, {} left"
    assert batch.lines() == [said.format(100, 300) + ", about 30 min 0 s to go"]
    batch.done = 400
    assert batch.lines() == [said.format(400, 0)]


def test_durations_are_said_as_a_person_says_them():
    said = [duration(seconds) for seconds in (0.4, 59.4, 60, 3599, 3600, 7800)]
    assert said == ["0 s", "59 s", "1 min 0 s", "59 min 59 s", "1 h 0 min", "2 h 10 min"]


def test_each_submission_that_runs_has_a_line_with_its_place():
    """The one that has run longest comes first, and a hostile name is escaped; others are cut."""
    now = time.monotonic()
    ada, bob = Running("ada\u202e.zip", "", now - 7), Running("bob.zip", "", now - 70)
    batch = BatchProgress(9, running={"1": ada, "2": bob}, waits="waiting for GPU 0")
    assert batch.lines()[1:] == [
        "bob.zip  1 min 10 s", "ada\\u202e.zip  7 s", "waiting for GPU 0"
    ]  # fmt: skip
    running = {str(i): Running(f"s{i}", f"node{i % 3}", now - 100 + i) for i in range(25)}
    batch = BatchProgress(99, done=12, running=running, started=now - 60)
    assert (batch.lines()[1], batch.lines()[-1]) == ("s0  1 min 40 s on node0", "and 5 more")


@pytest.mark.parametrize("is_terminal", [True, False])
def test_lines_and_notes_are_told(capsys, monkeypatch, is_terminal):
    """A terminal shows the lines under the notes, until the end; a log has them as one line."""
    out = io.StringIO()
    made = Console(file=out, force_terminal=True, width=60)
    monkeypatch.setattr(progress_line, "Console", lambda **_: made if is_terminal else Console())
    monkeypatch.setattr(progress_line, "SECONDS_BETWEEN_LINES", 0.0)
    with progress_line.telling() as tell:
        note("node2 is not used: \x1b[2J")
        tell(["graded 1 of 3", "[b]ada.zip[/b]  7 s"], 1, 3)
    told = out.getvalue() if is_terminal else capsys.readouterr().err
    parts = ("grader: node2 is not used: \\x1b[2J", "graded 1 of 3", "[b]ada.zip[/b]  7 s")
    assert sorted(parts, key=told.index) == [*parts]
    assert ("; " in told) is not is_terminal
    assert ("━" in told) is ("╺" in told) is is_terminal, "a third of the bar is done"


def test_a_wait_for_a_gpu_is_told_at_once_and_then_now_and_then(capsys, monkeypatch):
    with progress_line.advancing("grading") as advance:
        for seconds in (9, 8, 7):
            advance(f"waiting for GPU 0: 1 turn ahead, about {seconds} s", 0, 0)
        monkeypatch.setattr(progress_line, "SECONDS_BETWEEN_LINES", -1.0)
        advance("waiting for GPU 0: 1 turn ahead, about 6 s", 0, 0)
        advance("relu", 1, 3)
    assert capsys.readouterr().err.splitlines() == [
        "grader: waiting for GPU 0: 1 turn ahead, about 9 s",
        "grader: waiting for GPU 0: 1 turn ahead, about 6 s",
        "grading: 1 of 3 done in 0 s, now relu",
    ]
