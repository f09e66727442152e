"""The progress that a batch displays while it runs."""

import time

from rich.console import Console

from grader.classroom import display
from grader.classroom.batches import BatchProgress, Running


def test_the_time_to_go_is_an_estimate_from_what_was_done():
    """No estimate is shown before the first result or after the last."""
    progress = BatchProgress(400, started=0.0)
    assert display.summary(progress, 10.0) == "graded 0 of 400, 400 left"
    progress.done, progress.faults = 100, 2
    assert display.summary(progress, 600.0) == (
        "graded 100 of 400, 2 with a fault of the grader, 300 left, about 30 min 0 s to go"
    )
    progress.done = 400
    assert display.summary(progress, 600.0) == (
        "graded 400 of 400, 2 with a fault of the grader, 0 left"
    )


def test_durations_are_said_as_a_person_says_them():
    said = [display.duration(seconds) for seconds in (0.4, 59.4, 60, 3599, 3600, 7800)]
    assert said == ["0 s", "59 s", "1 min 0 s", "59 min 59 s", "1 h 0 min", "2 h 10 min"]


def test_each_submission_that_runs_has_a_line_of_its_own():
    now = time.monotonic()
    running = {
        "1": Running("ada[/b]\u202e.zip", "", now - 7),
        "2": Running("bob.zip", "", now - 70),
    }
    console = Console(width=90)
    with console.capture() as text:
        console.print(display._table(BatchProgress(9, done=3, running=running, started=now - 60)))
    lines = [line.strip() for line in text.get().splitlines()]
    assert lines[0] == "graded 3 of 9, 6 left, about 2 min 0 s to go"
    assert lines[2:] == ["bob.zip  1 min 10 s", "ada[/b]\\u202e.zip  7 s"]


def test_a_cluster_shows_where_each_submission_runs():
    now = time.monotonic()
    running = {str(i): Running(f"s{i}", f"node{i % 3}", now - 100 + i) for i in range(25)}
    progress = BatchProgress(99, done=12, running=running, started=now - 60)
    progress.done_on.update({"node1": 7, "node0": 5})
    console = Console(width=90, height=50)
    with console.capture() as text:
        console.print(display._table(progress))
    lines = [line.strip() for line in text.get().splitlines()]
    assert lines[2] == "s0  1 min 40 s on node0"
    assert lines[-2:] == ["and 5 more", "graded on node1: 7, node0: 5"]


def test_a_batch_that_waits_for_a_gpu_says_so(capsys, monkeypatch):
    said = "waiting for GPU 0: 2 turns ahead; ada (process 7) has it"
    progress = BatchProgress(9, running={"1": Running("ada.zip", "", 0.0)}, waits=said)
    console = Console(width=90)
    with console.capture() as text:
        console.print(display._table(progress))
    assert text.get().splitlines()[-1].strip() == said
    monkeypatch.setattr(display, "SECONDS_BETWEEN_LINES", 0.0)
    show = display._lines()
    show(progress)
    progress.waits = ""
    show(progress)
    first, second = capsys.readouterr().err.splitlines()
    assert (first.endswith(f"; {said}"), "waiting" in second) == (True, False)


def test_a_note_is_shown_once(capsys):
    progress = BatchProgress(9, notes=["node2 is not used: no bubblewrap\x1b[2J"])
    show = display._lines()
    show(progress)
    show(progress)
    assert capsys.readouterr().err == "grader: node2 is not used: no bubblewrap\\x1b[2J\n"
