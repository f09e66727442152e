"""How much memory of a GPU a test takes, as the driver reports it."""

import time
from collections.abc import Callable

from grader.sandbox.gpus import Gpu

LOOK_AT_MEMORY_SECONDS = 0.05
# Added to a test's limit for the memory that CUDA itself needs in each process, including the code
# of its libraries.
CONTEXT_BYTES = 2**30
# The memory that the driver may keep after a process has exited. It is less than CUDA needs for a
# running process.
SLACK_BYTES = 256 * 2**20
GIVE_BACK_SECONDS = 5.0  # how long the driver may take to release the memory of an ended process


class Usage:
    """The device memory used by the test that is running or ran last."""

    def __init__(self, device: Gpu) -> None:
        self._device = device
        self._before: int | None = None
        self._at_first: int | None = None
        self._next_look = 0.0

    def start(self, before: int | None = None) -> None:
        """Begin a test: memory that is already in use does not count as the test's.

        Args:
            before: How much was in use, if another process has measured it.
        """
        self._before = self._device.used_bytes() if before is None else before
        if self._at_first is None:
            self._at_first = self._before

    def taken_bytes(self) -> int:
        """How much more memory is in use than before the test."""
        return 0 if self._before is None else max(0, self._device.used_bytes() - self._before)

    def exceeds(self, limit_bytes: int) -> bool:
        """Whether the test uses more than its limit.

        Frequent calls are cheap: between two readings of the device, the answer is False.
        """
        if time.monotonic() < self._next_look:
            return False
        self._next_look = time.monotonic() + LOOK_AT_MEMORY_SECONDS
        return self.taken_bytes() > limit_bytes + CONTEXT_BYTES

    def held_bytes(self) -> int:
        """How much more memory is in use than before the first test of all."""
        return 0 if self._at_first is None else max(0, self._device.used_bytes() - self._at_first)

    def given_back(self, seconds: float) -> bool:
        """Wait until the device has released an ended test's memory; return False on timeout."""
        return _falls(self.taken_bytes, seconds)

    def all_given_back(self, seconds: float) -> bool:
        """Wait until the device has released the memory of all tests; return False on timeout."""
        return _falls(self.held_bytes, seconds)


def _falls(taken: Callable[[], int], seconds: float) -> bool:
    """Wait until no more memory is taken than the driver may keep; return False on timeout."""
    deadline = time.monotonic() + seconds
    while taken() > SLACK_BYTES:
        if time.monotonic() >= deadline:
            return False
        time.sleep(LOOK_AT_MEMORY_SECONDS)
    return True
