"""What a batch shows while it works."""

import time

from rich.console import Console

from grader.classroom import display
from grader.classroom.batch import Progress


def test_the_time_to_go_is_an_estimate_from_what_was_done():
    """At the start there is none, and at the end none is needed."""
    progress = Progress(400, started=0.0)
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
    """The longest one is first, and a hostile name is text."""
    now = time.monotonic()
    running = {"ada[/b]\u202e.zip": now - 7, "bob.zip": now - 70}
    console = Console(width=90)
    with console.capture() as text:
        console.print(display._table(Progress(9, done=3, running=running, started=now - 60)))
    lines = [line.strip() for line in text.get().splitlines()]
    assert lines[0] == "graded 3 of 9, 6 left, about 2 min 0 s to go"
    assert lines[2:] == ["bob.zip  1 min 10 s", "ada[/b]\\u202e.zip  7 s"]
