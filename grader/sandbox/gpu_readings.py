"""What the driver reports about a GPU while tests run: clock, power, temperature, throttling.

A slow clock explains a slow test, so a result names them. A driver need not report any of them.
"""

import time
from collections.abc import Callable

from grader.sandbox.gpus import Gpu

LOOK_EVERY_SECONDS = 0.25
# Bits of NVML's clock event reasons (nvml.h) that mean that the GPU is slower than it could be. The
# other bits are settings, such as a clock that the administrator has chosen.
THROTTLING = {
    0x04: "power cap",
    0x08: "hardware slowdown",
    0x20: "temperature",
    0x40: "temperature",
    0x80: "power brake",
}
IDLE = 0x01


class Readings:
    """The extremes of what the driver has reported since `clear`."""

    def __init__(self, device: Gpu) -> None:
        self._device = device
        self.clear()

    def clear(self) -> None:
        """Forget everything; another submission begins."""
        self._clocks: list[int] = []
        self._most: dict[str, int] = {}
        self._reasons: int | None = None
        self._next_look = 0.0

    def look(self) -> None:
        """Ask the driver; frequent calls are cheap."""
        if time.monotonic() < self._next_look:
            return
        self._next_look = time.monotonic() + LOOK_EVERY_SECONDS
        seen = self._device.readings()
        reasons = seen.get("reasons")
        if reasons is not None:
            self._reasons = (self._reasons or 0) | reasons
        # The clock of a GPU that does nothing says nothing about a test.
        if "clock" in seen and not (reasons or 0) & IDLE:
            self._clocks = [
                min([seen["clock"], *self._clocks]),
                max([seen["clock"], *self._clocks]),
            ]
        for name in ("power", "temperature", "power limit", "highest clock"):
            if name in seen:
                self._most[name] = max(seen[name], self._most.get(name, 0))

    def described(self) -> dict[str, str]:
        """The readings in words, without what the driver did not report."""
        told = {}
        if self._clocks:
            low, high = self._clocks
            of = f" of {self._most['highest clock']}" if "highest clock" in self._most else ""
            told["clock"] = f"{low}{f' to {high}' if high > low else ''}{of} MHz"
        if "power" in self._most:
            limit = self._most.get("power limit")
            of = f" of {limit / 1000:.0f}" if limit else ""
            told["power"] = f"at most {self._most['power'] / 1000:.0f}{of} W"
        if "temperature" in self._most:
            told["temperature"] = f"at most {self._most['temperature']} °C"
        if self._reasons is not None:
            names = [name for bit, name in THROTTLING.items() if self._reasons & bit]
            told["throttled"] = " and ".join(dict.fromkeys(names)) or "no"
        return told


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
