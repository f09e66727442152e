"""gpu_timing: the time that the GPU took, not the time that Python took to launch the work.

Most tests here run on the stand-in for a GPU, where they earn no points, and again, from
cuda/, on a real one. The stand-in knows how long each kernel takes, to the nanosecond; a launch
takes 5 µs, and waking up after a wait 20 µs. On a real GPU, the time of a spinning kernel varies
with the clock rate, so the relative tolerance is a half.

Accepted on purpose: all events recorded before one wait, or a wait after each call; for an even
number of repeats, any value between the two middle ones; warm-up calls with or without a wait.
"""

import statistics

import pytest
import torch

from kit import expect
from tests.probes import gpu as probes

# Relative. The mistakes are wrong by a factor of 2 or more.
TOLERANCE = {"stand-in": 0.1, "cuda": 0.5}
BF16, FP16, FP32 = torch.bfloat16, torch.float16, torch.float32


def milliseconds(rng, count, low=2, high=9):
    """Draw kernel times, in seconds."""
    return [int(n) / 1000 for n in torch.randint(low, high, (count,), generator=rng)]


def check(got, expected, tolerance, *, of="time_kernel", hint=None):
    expect.number(got, expected, of=of, tolerance=tolerance * expected, hint=hint)


def timed(student, device, seconds, expected, *, near=None, hint=None, **options):
    """Check the time of kernels that take these seconds, and return the probe's answer."""
    got = student.run(probes.timed, device=device, seconds=seconds, **options)
    check(got["seconds"], expected, near or TOLERANCE[device], hint=hint)
    return got


# Stays: this test checks the rule itself; the tests below check the same times in special cases.
@pytest.mark.harm("wrong number")
def test_median_of_what_the_gpu_took(student, rng, device):
    """time_kernel returns the median, in seconds, of the GPU's times after the warm-up calls."""
    for warmup in (1, 2):
        (unit,) = milliseconds(rng, 1, 8, 14)
        low, median, high = [unit / 9, unit / 3], unit, [3 * unit, 9 * unit]
        # Neither the mean nor the value in the middle position is near the median.
        measured = [high[0], low[0], high[1], median, low[1]]
        seconds, calls = [0.05] * warmup + measured, {"warmup": warmup, "repeats": 5}
        hint = "the median, in seconds, measured with two events around each call after the warm-up"
        timed(student, device, seconds, median, hint=hint, **calls)
    (t,) = milliseconds(rng, 1)
    even = [0.1, t, 0.0005, 0.1, t, 0.0005]
    hint = "of an even number of times, take the middle of the sorted ones"
    timed(student, device, even, t, warmup=0, repeats=6, hint=hint)


# Stays: this test distinguishes a measured warm-up from other wrong times; the median may hide it.
@pytest.mark.harm("wrong number")
def test_warm_up_is_not_measured(student, rng, device):
    """The warm-up calls run before the measured ones, and their time never counts."""
    (t,) = milliseconds(rng, 1)
    hint = "do not measure the first `warmup` calls of fn"
    timed(student, device, [0.2, 0.1, 0.1, t, t, t], t, warmup=3, repeats=3, hint=hint)
    hint = "with warmup=0 the first call is measured"
    timed(student, device, [0.2, t, t], 0.2, warmup=0, repeats=1, hint=hint)


# Stays: this test checks the defaults, and counts calls that take no time.
@pytest.mark.harm("crash")
def test_number_of_calls(student, rng, device):
    """fn is called warmup + repeats times; by default 3 and 10."""
    both = [({"warmup": 5, "repeats": 12, "on_a_stream": True}, 17)]
    both += [({"warmup": 0, "repeats": 1}, 1)]
    for options, calls in [*both, ({}, 13), ({"repeats": 4}, 7)]:
        times = milliseconds(rng, 1) * 20
        got = timed(student, device, times, times[0], **options)
        hint = "first warmup calls, then repeats calls"
        expect.value(got["calls"], calls, of="time_kernel", hint=hint)


# Stays: only this test looks at the GPU after the call.
@pytest.mark.harm("crash")
def test_gpu_is_done(student, rng, device):
    """When time_kernel returns, the GPU has finished all work."""
    times = milliseconds(rng, 4)
    got = timed(student, device, times, statistics.median(times[1:]), warmup=1, repeats=3)
    reason = "the GPU is still working when time_kernel returns"
    expect.that(not got["busy"], reason, of="time_kernel")


# Stays: this test shows that time_kernel reads a CPU clock; a wrong MFU can have other causes.
@pytest.mark.harm("wrong number")
def test_short_kernels(student, rng):
    """The time of a 50 µs kernel includes neither launches nor the wake-up after a wait."""
    (t,) = milliseconds(rng, 1, 40, 70)
    hint = "a CPU clock also measures the wait: use torch.cuda.Event(enable_timing=True)"
    options = {"warmup": 2, "repeats": 5, "near": 0.2, "hint": hint}
    timed(student, "stand-in", [t / 1000] * 8, t / 1000, **options)


# --- measured_mfu


def mfu(student, sizes, dtype, peaks, speeds):
    given = {"sizes": sizes, "dtype": dtype, "peaks": peaks, "speeds": speeds}
    return student.run(probes.mfu, device="stand-in", **given)


def random_sizes(rng):
    """Distinct sizes of a product that a CPU computes quickly."""
    return tuple((30 + 6 * (torch.randperm(8, generator=rng)[:3] + 1)).tolist())


@pytest.mark.harm("wrong number")
def test_mfu_is_flops_over_time_and_peak(student, rng):
    """The MFU is 2mkn FLOPs / (the GPU's time for the product · `hw`'s peak for the dtype).

    The product is one of random matrices, (m, k) and (k, n).
    """
    # A share above 1 shows that a peak is wrong, and is returned as it is.
    for dtype, speed, share in [(BF16, 1e8, 0.6), (FP32, 25e6, 3.0), (FP16, None, 0.5)]:
        m, k, n = random_sizes(rng)
        if not speed:  # The product takes 90 µs, and making either matrix 12 µs or more.
            m, k, n = 2 * m, 2 * k, 2 * n
            speed = 2 * m * k * n / 9e-5
        speeds = {BF16: 1e8, FP32: 25e6} | {dtype: speed}
        peak = speed / share
        others = [(other, 8 * peak) for other in (BF16, FP16, FP32) if other != dtype]
        peaks = [(torch.float64, peak / 16), (dtype, peak), *others]
        got = mfu(student, (m, k, n), dtype, peaks, list(speeds.items()))
        check(got, share, 0.1, of="measured_mfu", hint="2mkn / (seconds · hw.peak_flops[dtype])")
    products, alike = student.run(probes.multiplied, sizes=(m, k, n), dtype=BF16)
    expect.that(len(products) > 0, "no product is computed", of="measured_mfu")
    for rows, columns, inner, varied in products:
        hint = "the shapes are (m, k) and (k, n)"
        expect.value([rows, columns, inner], [*sorted((m, n)), k], of="measured_mfu", hint=hint)
        hint = "a GPU multiplies zeros, or a constant, faster: torch.randn"
        expect.that(varied, "a matrix is not random", of="measured_mfu", hint=hint)
    expect.that(not alike, "it seeds torch's generator", of="measured_mfu")


@pytest.mark.harm("not refused")
def test_no_peak_is_guessed(student, rng):
    """A dtype for which `hw` has no peak raises a ValueError or a KeyError."""
    sizes, speeds = random_sizes(rng), [(BF16, 25e6), (FP16, 25e6)]
    with expect.right_call("a dtype for which hw has a peak"):
        check(mfu(student, sizes, BF16, [(BF16, 5e7)], speeds), 0.5, 0.1, of="measured_mfu")
    with expect.raises(
        (ValueError, KeyError),
        of="measured_mfu",
        when="hw has a peak for bfloat16 and none for float16",
    ):
        mfu(student, sizes, FP16, [(BF16, 5e7)], speeds)
