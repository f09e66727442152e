"""What a test takes of a GPU, seen from outside: by how much more of its memory is in use than before the test began.

The driver counts a device's memory for everyone together. `Gpu.lock` keeps other graders away; whoever else uses the device is
counted as well, which is why a device that a test did not pass on is looked at again (preflight.py) before the test is blamed.
"""

import time
from typing import Protocol

LOOK_EVERY_SECONDS = 0.05
CONTEXT_BYTES = (
    2**30
)  # above a test's limit: what CUDA takes for itself in each process, the code of its libraries included
SLACK_BYTES = (
    256 * 2**20
)  # what the driver may keep after a process, and less than what CUDA takes for a living one


class Device(Protocol):
    """The one thing that has to be known of a device."""

    def used_bytes(self) -> int:
        """How much of its memory is in use."""


class Usage:
    """What the test that runs, or ran last, takes of a device."""

    def __init__(self, device: Device) -> None:
        self._device = device
        self._before: int | None = None
        self._next_look = 0.0

    def start(self) -> None:
        """A test begins: what is in use now is not its."""
        self._before = self._device.used_bytes()

    def taken_bytes(self) -> int:
        """How much more is in use than before the test."""
        return 0 if self._before is None else max(0, self._device.used_bytes() - self._before)

    def exceeds(self, limit_bytes: int) -> bool:
        """Whether the test has more than it may, as often as this is asked; it is looked at only now and then."""
        if time.monotonic() < self._next_look:
            return False
        self._next_look = time.monotonic() + LOOK_EVERY_SECONDS
        return self.taken_bytes() > limit_bytes + CONTEXT_BYTES

    def given_back(self, seconds: float) -> bool:
        """Wait until the device has back what a test took that has ended; False when it still has not after these seconds."""
        deadline = time.monotonic() + seconds
        while self.taken_bytes() > SLACK_BYTES:
            if time.monotonic() >= deadline:
                return False
            time.sleep(LOOK_EVERY_SECONDS)
        return True
