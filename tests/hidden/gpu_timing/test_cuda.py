"""gpu_timing on a real GPU: most of the stand-in's tests, and times by the grader's own clock.

The grader sees when a request is sent and when it is answered. The extra time that many products
take compared with a few, divided by the number of extra products, is the time of one product:
start-up and launch overhead cancel. The margin is a factor of 1.7 each way, because a GPU's clock
rate changes and other work on the machine is included in the grader's time. A mistake (launch time,
milliseconds for seconds, half the FLOPs, a sparse peak) changes the result by a factor of 2 or
more.

The peaks are NVIDIA's dense peaks for the GPU name that the worker reports. A GPU that is not in
the list has no peak here: the test does not guess one, and checks its MFU only against the clock.
"""

import time

import pytest
import torch

from kit import expect
from tests.hidden.gpu_timing.test_hidden import (  # noqa: F401
    test_gpu_is_done,
    test_median_of_what_the_gpu_took,
    test_number_of_calls,
    test_warm_up_is_not_measured,
)
from tests.probes import gpu as probes

SIZE = 4096
FEW, MANY = 20, 120
# The time that the extra products should take.
LONG_SECONDS = 0.5
MARGIN = 1.7
# Dense bfloat16 FLOP/s by torch's name of the GPU, from NVIDIA's data sheets of the A100, H100 and
# H200.
PUBLISHED = {
    "NVIDIA A100-SXM4-80GB": 312e12,
    "NVIDIA H100 80GB HBM3": 989.5e12,
    "NVIDIA H200": 989.5e12,
}
BF16 = torch.bfloat16


def by_the_graders_clock(student):
    """Seconds per product by this process's clock, and time_kernel's own answer."""

    def asked(count):
        started = time.monotonic()
        answer = student.run(probes.products, device="cuda", size=SIZE, dtype=BF16, count=count)
        return time.monotonic() - started, answer

    asked(FEW)  # CUDA starts, and the clock rate goes up
    roughly = (asked(MANY)[0] - asked(FEW)[0]) / (MANY - FEW)
    more = min(5000, max(MANY, int(LONG_SECONDS / max(roughly, 1e-5))))
    few = min(asked(FEW)[0] for _ in range(3))
    many, answer = min((asked(FEW + more) for _ in range(3)), key=lambda pair: pair[0])
    return (many - few) / more, answer


def check_type(got, *, of):
    reason = f"wrong type: expected float, got {expect.type_name(got)}"
    expect.that(type(got) is float, reason, of=of)


def between(got, expected, *, of, hint):
    check_type(got, of=of)
    fits = expected / MARGIN <= got <= expected * MARGIN
    reason = f"off by more than a factor of {MARGIN:g} from what the grader's clock measured"
    expect.that(fits, reason, of=of, hint=hint)


# Stays: only this test uses a clock that no student's code can touch.
@pytest.mark.harm("wrong number")
def test_time_by_the_graders_clock(student):
    """time_kernel agrees with the grader's own clock, which times many matrix products."""
    expected, got = by_the_graders_clock(student)
    hint = "measure the work, not its launch: use CUDA events and synchronise"
    between(got, expected, of="time_kernel", hint=hint)


@pytest.mark.harm("wrong number")
def test_mfu_by_the_graders_clock(student):
    """The MFU is the product's FLOPs / (time by the grader's clock · the given dtype's peak)."""
    seconds, _ = by_the_graders_clock(student)
    flops, peak = 2 * SIZE**3, 1e15
    sizes = (SIZE, SIZE // 2, SIZE * 2)  # as many FLOPs, but not a cube
    peaks = [(torch.float32, 3e13), (BF16, peak), (torch.int8, 8e15)]
    got = student.run(probes.mfu, device="cuda", sizes=sizes, dtype=BF16, peaks=peaks)
    hint = "2mkn / (seconds · hw.peak_flops[dtype])"
    between(got, flops / (seconds * peak), of="measured_mfu", hint=hint)


def mfu_of_a_cube(student, peak):
    """The MFU of one product of large square matrices, of a GPU with this bfloat16 peak."""
    sizes, peaks = (SIZE, SIZE, SIZE), [(BF16, peak)]
    got = student.run(probes.mfu, device="cuda", sizes=sizes, dtype=BF16, peaks=peaks)
    check_type(got, of="measured_mfu")
    return got


# Stays: only this test detects too short a time on a GPU whose peak is known.
@pytest.mark.harm("wrong number")
def test_mfu_is_below_the_published_peak(student):
    """No product is faster than the GPU's published dense peak."""
    peak = PUBLISHED.get(student.run(probes.gpu_name))
    if peak is not None:
        got = mfu_of_a_cube(student, peak)
        hint = "is the clock read before the GPU is done? That gives an MFU above 1"
        reason = "an MFU that is impossible on this GPU"
        expect.that(0.05 < got <= 1.0, reason, of="measured_mfu", hint=hint)


@pytest.mark.harm("wrong number")
def test_mfu_above_one_is_returned(student):
    """If the given peak is far below what the GPU reaches, the MFU is above 1 and not clamped."""
    got = mfu_of_a_cube(student, 1e9)
    hint = "a result above 1 shows that a time or a peak is wrong"
    expect.that(got > 1, "the MFU is clamped to 1", of="measured_mfu", hint=hint)


@pytest.mark.harm("not refused")
def test_no_peak_is_guessed(student):
    """A dtype for which `hw` has no peak raises a ValueError or a KeyError."""
    sizes, peaks = (512, 256, 128), [(BF16, 1e15)]
    got = student.run(probes.mfu, device="cuda", sizes=sizes, dtype=BF16, peaks=peaks)
    reason = "no MFU although there is a peak"
    expect.that(type(got) is float and got > 0, reason, of="measured_mfu")
    when, refusals = "hw has a peak for bfloat16 and none for float16", (ValueError, KeyError)
    with expect.raises(refusals, of="measured_mfu", when=when):
        student.run(probes.mfu, device="cuda", sizes=sizes, dtype=torch.float16, peaks=peaks)
