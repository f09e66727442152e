"""What the driver reports about a GPU while tests run."""

from pathlib import Path

import pytest

from grader.sandbox import gpu_readings
from grader.sandbox.gpu_readings import Readings
from grader.sandbox.gpus import Gpu

EVERYTHING = {
    "clock": 1980, "highest clock": 1980, "power": 310_400, "power limit": 700_000,
    "temperature": 61, "reasons": 0,
}  # fmt: skip


class Reports:
    """A device that reports these readings in turn."""

    def __init__(self, *readings):
        self._left = list(readings)

    def readings(self):
        return self._left.pop(0)


def described(*seen):
    made = Readings(Reports(*seen))
    for _ in seen:
        made._next_look = 0.0
        made.look()
    return made.described()


def test_the_extremes_are_told():
    """The lowest and the highest clock, the highest power and temperature, every reason."""
    slow = {"clock": 1200, "power": 699_900, "temperature": 83, "reasons": 0x04 | 0x40}
    assert {
        "clock": "1200 to 1980 of 1980 MHz",
        "power": "at most 700 of 700 W",
        "temperature": "at most 83 °C",
        "throttled": "power cap and temperature",
    } == described(EVERYTHING, EVERYTHING | slow, EVERYTHING)


def test_what_a_driver_does_not_report_is_left_out():
    """A GPU without a power sensor, and a driver that reports nothing at all, are no errors."""
    few = {"clock": 900, "temperature": 40}
    assert {"clock": "900 MHz", "temperature": "at most 40 °C"} == described(few)
    assert {} == described({}, {})


@pytest.mark.parametrize(
    ("reasons", "throttled"),
    [(0x01, "no"), (0x02, "no"), (0x20, "temperature"), (0x60, "temperature"), (0x88, None)],
)
def test_a_setting_is_not_throttling(reasons, throttled):
    """A clock that the administrator has chosen, or an idle GPU, does not count."""
    told = described({**EVERYTHING, "reasons": reasons})
    assert (throttled or "hardware slowdown and power brake") == told["throttled"]


def test_the_clock_of_an_idle_gpu_is_not_a_tests_clock():
    """Between two tests, a GPU clocks down."""
    idle = {**EVERYTHING, "clock": 345, "reasons": gpu_readings.IDLE}
    assert "1980 of 1980 MHz" == described(idle, EVERYTHING, idle)["clock"]
    assert "clock" not in described(idle)


def test_the_driver_is_asked_only_now_and_then_until_the_next_submission(monkeypatch):
    """Frequent calls ask no further questions; `clear` forgets what was seen."""
    monkeypatch.setattr(gpu_readings, "LOOK_EVERY_SECONDS", 1000.0)
    made = Readings(Reports(EVERYTHING, {"temperature": 30}))
    for _ in range(3):
        made.look()
    assert "no" == made.described()["throttled"]
    made.clear()
    made.look()
    assert {"temperature": "at most 30 °C"} == made.described()


@pytest.mark.skipif(Path("/dev/nvidiactl").exists(), reason="this machine has a GPU")
def test_no_driver_is_no_error():
    """The real library asks for a driver that is not there."""
    gpu = Gpu(0, "GPU-0", "a GPU", "1", 2**30, "0", (Path("/dev/null"),), ())
    assert {} == gpu.readings()
