"""End the wait for a reply if a test takes too much, or has stopped doing anything."""

import time

from grader.sandbox.box import Sandbox
from grader.sandbox.channel import Watch
from grader.sandbox.gpu_readings import Readings
from grader.sandbox.usage import LOOK_EVERY_SECONDS, Usage


class Asleep(Exception):
    """The test sleeps, and nothing will wake it."""


class TookTooMuch(Exception):
    """The test uses more GPU memory than it may."""


def watch(sandbox: Sandbox, device_memory_bytes: int, patience_seconds: float) -> Watch:
    """The watch over a test: over its GPU memory if there is a GPU, else over its sleep."""
    if sandbox.usage and sandbox.readings:
        return _MemoryWatch(sandbox.usage, sandbox.readings, device_memory_bytes)
    return _SleepWatch(sandbox, patience_seconds)


class _MemoryWatch(Watch):
    """Raises `TookTooMuch` when a test uses too much GPU memory, and notes how the GPU runs."""

    pause = LOOK_EVERY_SECONDS

    def __init__(self, usage: Usage, readings: Readings, limit: int) -> None:
        self._usage, self._readings, self._limit = usage, readings, limit

    def check(self) -> None:
        self._readings.look()
        if self._usage.exceeds(self._limit):
            raise TookTooMuch


class _SleepWatch(Watch):
    """Raises `Asleep` when a test has stopped doing anything.

    Args:
        sandbox: The sandbox that the test runs in.
        seconds: How long the test may do nothing.
    """

    def __init__(self, sandbox: Sandbox, seconds: float) -> None:
        self._sandbox, self._seconds = sandbox, seconds
        self._nanoseconds = -1  # CPU time of the test at the last look
        self._since = self._looked = time.monotonic()
        self.pause = seconds / 4

    def check(self) -> None:
        now = time.monotonic()
        if now < self._looked + self.pause:
            return
        activity = self._sandbox.activity()
        if not activity.sleeps or activity.nanoseconds != self._nanoseconds:
            self._since, self._nanoseconds = now, activity.nanoseconds
        self._looked = now
        if now - self._since >= self._seconds:
            raise Asleep
