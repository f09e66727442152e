"""The progress that a batch displays while it runs."""

import time

from rich.console import Console

from grader.classroom import display
from grader.classroom.batches import BatchProgress, Running


def lines_of(progress, height=25):
    """The lines of the table of a terminal."""
    console = Console(width=90, height=height)
    with console.capture() as text:
        console.print(display._table(progress))
    return [line.strip() for line in text.get().splitlines()]


def test_the_time_to_go_is_an_estimate_from_what_was_done():
    """No estimate is shown before the first result or after the last."""
    progress = BatchProgress(400, started=0.0)
    assert display.summary(progress, 10.0) == "graded 0 of 400, 400 left"
    progress.done, progress.faults = 100, 2
    said = "graded {} of 400, 2 with a fault of the grader, {} left"
    to_go = ", about 30 min 0 s to go"
    assert display.summary(progress, 600.0) == said.format(100, 300) + to_go
    progress.done = 400
    assert display.summary(progress, 600.0) == said.format(400, 0)


def test_durations_are_said_as_a_person_says_them():
    said = [display.duration(seconds) for seconds in (0.4, 59.4, 60, 3599, 3600, 7800)]
    assert said == ["0 s", "59 s", "1 min 0 s", "59 min 59 s", "1 h 0 min", "2 h 10 min"]


def test_each_submission_that_runs_has_a_line_with_its_place():
    """The one that has run longest comes first, and a hostile name is escaped; others are cut."""
    now = time.monotonic()
    ada, bob = Running("ada[/b]\u202e.zip", "", now - 7), Running("bob.zip", "", now - 70)
    lines = lines_of(BatchProgress(9, done=3, running={"1": ada, "2": bob}, started=now - 60))
    assert lines[0] == "graded 3 of 9, 6 left, about 2 min 0 s to go"
    assert lines[2:] == ["bob.zip  1 min 10 s", "ada[/b]\\u202e.zip  7 s"]
    running = {str(i): Running(f"s{i}", f"node{i % 3}", now - 100 + i) for i in range(25)}
    progress = BatchProgress(99, done=12, running=running, started=now - 60)
    progress.done_on.update({"node1": 7, "node0": 5})
    lines = lines_of(progress, height=50)
    assert lines[2] == "s0  1 min 40 s on node0"
    assert lines[-2:] == ["and 5 more", "graded on node1: 7, node0: 5"]


def test_a_wait_and_a_note_are_said_once(capsys, monkeypatch):
    """The table and the lines have the reason of a wait, as long as it lasts."""
    said = "waiting for GPU 0: 2 turns ahead; ada (process 7) has it"
    note = "node2 is not used: no bubblewrap\x1b[2J"
    progress = BatchProgress(9, running={"1": Running("a.zip", "", 0.0)}, waits=said, notes=[note])
    assert lines_of(progress)[-1] == said
    monkeypatch.setattr(display, "SECONDS_BETWEEN_LINES", 0.0)
    show = display._lines()
    show(progress)
    progress.waits = ""
    show(progress)
    told = "grader: node2 is not used: no bubblewrap\\x1b[2J"
    printed = capsys.readouterr().err.splitlines()
    assert printed.count(told) == 1
    first, second = (line for line in printed if line != told)
    assert (first.endswith(f"; {said}"), "waiting" in second) == (True, False)
