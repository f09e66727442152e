"""gpu_timing on a real GPU: the tests of the stand-in that hold there, and times by the grader's own clock.

The grader sees when a question is asked and when it is answered. What many products take more than few do, divided by how
many they are more, is the time of one, whatever starting and asking cost. Margins are a factor of 1.7 each way: clocks of a GPU
change, and other work on the machine is in the grader's time. A mistake (the time of asking, milliseconds for seconds, half
the FLOPs, a sparse peak) is wrong by a factor of 2 or more.

The peaks are NVIDIA's, dense, of the GPU whose name the worker gives. A GPU that is not in the list has no peak here: none is
guessed, and its MFU is held against the clock alone.
"""

import time

import pytest
import torch

from tests import expect
from tests.hidden.test_gpu_timing import (  # noqa: F401
    test_even_number_of_repeats,
    test_gpu_is_done,
    test_median_of_what_the_gpu_took,
    test_number_of_calls,
    test_warm_up_is_not_measured,
)
from tests.probes import gpu as probes

SIZE = 4096
FEW, MANY = 20, 120
LONG_SECONDS = 0.5  # that the difference between many products and few should take
MARGIN = 1.7
# bfloat16, dense FLOP/s, by what torch calls the GPU: NVIDIA's data sheets of the A100, H100 and H200.
PUBLISHED = {
    "NVIDIA A100-SXM4-80GB": 312e12,
    "NVIDIA H100 80GB HBM3": 989.5e12,
    "NVIDIA H200": 989.5e12,
}
BF16 = torch.bfloat16


def by_the_graders_clock(student):
    """Seconds of one product by this process's clock, and time_kernel's own word on it."""

    def asked(count):
        started = time.monotonic()
        answer = student.run(probes.products, device="cuda", size=SIZE, dtype=BF16, count=count)
        return time.monotonic() - started, answer

    asked(FEW)  # CUDA starts, and the clocks go up
    roughly = (asked(MANY)[0] - asked(FEW)[0]) / (MANY - FEW)
    more = min(5000, max(MANY, int(LONG_SECONDS / max(roughly, 1e-5))))
    few = min(asked(FEW)[0] for _ in range(3))
    many, answer = min((asked(FEW + more) for _ in range(3)), key=lambda pair: pair[0])
    return (many - few) / more, answer


def between(got, expected, *, of, hint):
    expect.that(
        type(got) is float, f"wrong type: expected float, got {expect.type_name(got)}", of=of
    )
    fits = expected / MARGIN <= got <= expected * MARGIN
    expect.that(
        fits,
        f"off by more than a factor of {MARGIN:g} from what the grader's clock saw",
        of=of,
        hint=hint,
    )


# Stays: it alone is held by a clock that no student's code can touch.
@pytest.mark.points(2)
def test_time_by_the_graders_clock(student):
    """The time of a matrix product is what a clock outside sees when many of them are asked for."""
    expected, got = by_the_graders_clock(student)
    between(
        got,
        expected,
        of="time_kernel",
        hint="the time of the work, not of asking for it: CUDA events, synchronised",
    )


@pytest.mark.points(2)
def test_mfu_by_the_graders_clock(student):
    """The MFU is the product's FLOPs over the time that a clock outside sees and the peak that is given for the dtype."""
    seconds, _ = by_the_graders_clock(student)
    flops, peak = 2 * SIZE**3, 1e15
    sizes = (SIZE, SIZE // 2, SIZE * 2)  # as many FLOPs, and no cube
    peaks = [(torch.float32, 3e13), (BF16, peak), (torch.int8, 8e15)]
    got = student.run(probes.mfu, device="cuda", sizes=sizes, dtype=BF16, peaks=peaks)
    between(
        got,
        flops / (seconds * peak),
        of="measured_mfu",
        hint="2mkn / (seconds · hw.peak_flops[dtype])",
    )


# Stays: it is the one that shows a time which is too short on a GPU whose peak is known.
def test_mfu_is_below_the_published_peak(student):
    """No product is faster than the GPU's published dense peak."""
    peak = PUBLISHED.get(student.run(probes.gpu_name))
    if peak is not None:
        got = student.run(
            probes.mfu, device="cuda", sizes=(SIZE, SIZE, SIZE), dtype=BF16, peaks=[(BF16, peak)]
        )
        expect.that(
            type(got) is float,
            f"wrong type: expected float, got {expect.type_name(got)}",
            of="measured_mfu",
        )
        hint = "an MFU above 1: is the clock read before the GPU is done?"
        expect.that(
            0.05 < got <= 1.0, "an MFU that this GPU cannot have", of="measured_mfu", hint=hint
        )


def test_mfu_above_one_is_returned(student):
    """A peak far below what the GPU reaches gives an MFU above 1, and it is not hidden."""
    got = student.run(
        probes.mfu, device="cuda", sizes=(SIZE, SIZE, SIZE), dtype=BF16, peaks=[(BF16, 1e9)]
    )
    expect.that(
        type(got) is float,
        f"wrong type: expected float, got {expect.type_name(got)}",
        of="measured_mfu",
    )
    expect.that(
        got > 1,
        "the MFU is cut down to 1",
        of="measured_mfu",
        hint="it says that a time or a peak is wrong",
    )


def test_no_peak_is_guessed(student):
    """A dtype that `hw` has no peak for is a ValueError, and so is a size below 1."""
    sizes, peaks = (512, 256, 128), [(BF16, 1e15)]
    got = student.run(probes.mfu, device="cuda", sizes=sizes, dtype=BF16, peaks=peaks)
    expect.that(type(got) is float and got > 0, "no MFU where there is a peak", of="measured_mfu")
    with expect.raises(
        ValueError, of="measured_mfu", when="hw has a peak for bfloat16 and none for float16"
    ):
        student.run(probes.mfu, device="cuda", sizes=sizes, dtype=torch.float16, peaks=peaks)
    with expect.raises(ValueError, of="measured_mfu", when="a size is below 1"):
        student.run(probes.mfu, device="cuda", sizes=(0, 256, 128), dtype=BF16, peaks=peaks)
