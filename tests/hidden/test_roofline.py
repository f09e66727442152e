"""roofline: intensities, the time that a device needs at least, and how much of its peak is reached.

Accepted on purpose: an int where a number is whole (min(1, …) gives one); any order of operations and any formula that is
equal in real numbers; any sentence for a wrong m, k or n, as hardly a sentence is without these letters, and where no tensor
is moved, as two arguments are wrong together. Hardware and its three constants are given and not judged: the devices here
are made up, with numbers of their own, so that no constant can stand in for what `hw` says.

Oracles are the definitions in exact rational arithmetic. All tests of a formula but one use a device with one peak for every
dtype: who takes the wrong dtype's peak pays for that in test_the_peak_is_that_of_the_dtype alone.
"""

from fractions import Fraction

import pytest
import torch

from tests import expect
from tests.probes import resource_accounting as probes

# A formula here has at most 8 operations, each of which rounds by at most eps/2 of its result, and at most 4 integers that are
# rounded to a float first: 6 eps together, and the rest for terms of second order and the oracle's own rounding.
TOLERANCE = 8 * torch.finfo(torch.float64).eps
DTYPES = [torch.float64, torch.float32, torch.bfloat16, torch.float16, torch.float8_e4m3fn]


def integer(rng, low, high):
    return int(torch.randint(low, high, (), generator=rng))


def uniform(rng, low, high):
    return float(torch.empty((), dtype=torch.float64).uniform_(low, high, generator=rng))


def device(rng, *, one_peak=True):
    """The fields of a made-up device: one peak for all dtypes, or 1 to 5 times a number, in no order."""
    peak = uniform(rng, 1e13, 9e14)
    times = [1] * len(DTYPES) if one_peak else (1 + torch.randperm(len(DTYPES), generator=rng)).tolist()
    return {
        "name": "made up",
        "peak_flops": {dtype: peak * n for dtype, n in zip(DTYPES, times, strict=True)},
        "memory_bandwidth": uniform(rng, 1e11, 9e12),
        "memory_bytes": integer(rng, 10**9, 10**11),
    }


def ridge(hw, dtype=torch.float32):
    """FLOPs per byte at which compute and memory take equally long."""
    return Fraction(hw["peak_flops"][dtype]) / Fraction(hw["memory_bandwidth"])


def ask(student, function, before, hw, *after):
    """What a function says for these arguments before and after the device."""
    return student.run(probes.with_hardware, function=function, hardware=hw, before=before, after=after)


def number_of(got, *, of):
    """`got` as a Fraction, once it is known to be a finite number."""
    got = float(got) if type(got) is int and abs(got) <= 2**53 else got
    expect.number(got, got if type(got) is float else 0.0, of=of, tolerance=0.0)
    expect.that(abs(got) < 1e100, "a number beyond all reason", of=of)  # so that the oracle can go on with it
    return Fraction(got)


def check(got, expected, *, of, hint=None):
    """A number that agrees with an exact one up to rounding."""
    got = float(got) if type(got) is int and abs(got) <= 2**53 else got
    expect.number(got, float(expected), of=of, tolerance=TOLERANCE * abs(float(expected)), hint=hint)


@pytest.mark.points(2)
def test_accelerator_intensity(student, rng):
    """The intensity of a device is its peak by its memory bandwidth, in FLOPs per byte."""
    for _ in range(3):
        hw = device(rng)
        got = ask(student, "accelerator_intensity", (), hw, torch.float32)
        check(got, ridge(hw), of="accelerator_intensity", hint="FLOP/s divided by bytes/s is FLOP per byte")


@pytest.mark.points(2)
def test_matmul_intensity(student, rng):
    """A product of m × k and k × n takes 2mkn FLOPs and moves A, B and C once each."""
    sizes = [integer(rng, 2, 50), integer(rng, 60, 900), integer(rng, 1000, 9000)]
    order = [sizes[i] for i in torch.randperm(3, generator=rng).tolist()]
    for m, k, n in [order, (1, *order[:2]), (*order[:2], 1), (order[0], 1, order[1]), (1, 1, 1)]:
        got = student.resource_accounting.matmul_intensity(m, k, n, torch.bfloat16)
        expected = Fraction(2 * m * k * n, 2 * (m * k + k * n + m * n))
        check(got, expected, of="matmul_intensity", hint="which three matrices are moved, and what are their shapes?")


@pytest.mark.points(2)
def test_elementwise_intensity(student, rng):
    """An elementwise operation moves every tensor that it reads and every one that it writes."""
    for read, written in [(1, 1), (2, 1), (integer(rng, 3, 9), 1), (1, 2), (integer(rng, 2, 5), integer(rng, 6, 9))]:
        flops = uniform(rng, 0.5, 20)
        got = student.resource_accounting.elementwise_intensity(flops, read, written, torch.bfloat16)
        expected = Fraction(flops) / (2 * (read + written))
        check(got, expected, of="elementwise_intensity", hint="bytes are moved both ways")


@pytest.mark.points(2)
def test_intensities_count_the_bytes_of_the_dtype(student, rng):
    """The same work in a dtype of twice the bytes has half the intensity."""
    m, k, n = (integer(rng, 2, 99) for _ in range(3))
    for function, arguments in [("matmul_intensity", (m, k, n)), ("elementwise_intensity", (3.0, 2, 1))]:
        of_two_bytes = number_of(getattr(student.resource_accounting, function)(*arguments, torch.float16), of=function)
        for dtype in (torch.float64, torch.float32, torch.bfloat16, torch.float8_e5m2, torch.int8):
            got = getattr(student.resource_accounting, function)(*arguments, dtype)
            check(
                got, of_two_bytes * 2 / dtype.itemsize, of=function, hint="how many bytes does one element of this dtype take?"
            )


@pytest.mark.points(3)
def test_roofline_seconds_is_the_longer_time(student, rng):
    """Compute and traffic overlap, so the longer of the two is the time, and not their sum."""
    hw = device(rng)
    for factor in (100.0, 1.5, 0.7, 0.01):
        flops = integer(rng, 10**12, 10**15)
        bytes_moved = float(flops / (ridge(hw) * Fraction(factor)))
        times = (
            Fraction(flops) / Fraction(hw["peak_flops"][torch.float32]),
            Fraction(bytes_moved) / Fraction(hw["memory_bandwidth"]),
        )
        got = ask(student, "roofline_seconds", (flops, bytes_moved), hw, torch.float32)
        check(got, max(times), of="roofline_seconds", hint="what does the device do while it waits for memory?")


@pytest.mark.points(2)
def test_is_compute_bound_on_either_side_of_the_ridge(student, rng):
    """Work is compute-bound where it has more FLOPs per byte than the device wants, and memory-bound where it has fewer."""
    hw = device(rng)
    for factor, expected in [(1e-3, False), (0.999, False), (1 - 1e-9, False), (1 + 1e-9, True), (1.001, True), (1e3, True)]:
        bytes_moved = integer(rng, 10**12, 10**13)
        flops = float(bytes_moved * ridge(hw) * Fraction(factor))
        got = ask(student, "is_compute_bound", (flops, bytes_moved), hw, torch.float32)
        expect.value(got, expected, of="is_compute_bound", hint="compare the two times")


def test_is_compute_bound_on_the_ridge(student):
    """Where compute and memory take equally long, the work counts as compute-bound."""
    # Powers of two, with which every order of operations is exact.
    hw = {"name": "round", "peak_flops": {torch.float32: 2.0**51}, "memory_bandwidth": 2.0**42, "memory_bytes": 2**36}
    for exponent, expected in [(0, True), (1, False)]:
        got = ask(student, "is_compute_bound", (2.0**41, 2.0 ** (32 + exponent)), hw, torch.float32)
        expect.value(got, expected, of="is_compute_bound", hint="`at least as long` is >= and not >")


@pytest.mark.points(2)
def test_mfu_counts_every_device(student, rng):
    """The FLOPs of all devices together are divided by what all of them could have computed; one device by default."""
    for num_devices in (1, integer(rng, 2, 9), integer(rng, 100, 5000)):
        hw, seconds, share = device(rng), uniform(rng, 0.001, 30), uniform(rng, 0.1, 0.9)
        peak = Fraction(hw["peak_flops"][torch.float32])
        flops = float(peak * Fraction(seconds) * num_devices * Fraction(share))
        expected = Fraction(flops) / (peak * Fraction(seconds) * num_devices)
        after = (num_devices,) if num_devices > 1 else ()
        got = ask(student, "mfu", (flops, seconds), hw, torch.float32, *after)
        check(got, expected, of="mfu", hint="the peak of all devices together, for this many seconds")


def test_mfu_above_one_is_returned(student, rng):
    """An MFU above 1 shows a wrong measurement, so it is neither clamped nor refused."""
    hw = device(rng)
    for excess in (1.98, uniform(rng, 3, 9)):
        flops = float(Fraction(hw["peak_flops"][torch.float32]) * Fraction(excess))
        got = ask(student, "mfu", (flops, 1.0), hw, torch.float32)
        expected = Fraction(flops) / Fraction(hw["peak_flops"][torch.float32])
        check(got, expected, of="mfu", hint="what would a reader of a clamped number miss?")


@pytest.mark.points(2)
def test_attainable_mfu_rises_to_one(student, rng):
    """Below the device's own intensity the MFU rises in proportion; above it stays 1."""
    hw = device(rng)
    own = number_of(ask(student, "accelerator_intensity", (), hw, torch.float32), of="accelerator_intensity")
    for factor in (1e-3, 0.5, 0.99, 1.01, 20.0):
        intensity = float(ridge(hw)) * factor
        got = ask(student, "attainable_mfu", (intensity,), hw, torch.float32)
        # What accelerator_intensity says is judged above: a mistake in it costs nothing here.
        roofs = [min(Fraction(1), Fraction(intensity) / r) for r in (ridge(hw), own) if r > 0]
        nearest = min(roofs, key=lambda roof: abs(roof - number_of(got, of="attainable_mfu")))
        check(got, nearest, of="attainable_mfu", hint="the roof is flat above the ridge")


@pytest.mark.points(2)
def test_the_peak_is_that_of_the_dtype(student, rng):
    """Each dtype has a peak of its own, and every function takes the one of the dtype it is given."""
    hw = device(rng, one_peak=False)
    for dtype in DTYPES:
        peak = hw["peak_flops"][dtype]
        same = {**hw, "peak_flops": dict.fromkeys(DTYPES, peak)}
        flops = float(Fraction(peak) * 3)
        for function, before in [
            ("accelerator_intensity", ()),
            ("roofline_seconds", (flops, 1)),
            ("mfu", (flops, 7.0)),
            ("attainable_mfu", (float(ridge(hw, dtype)) / 16,)),
        ]:
            got, alone = ask(student, function, before, hw, dtype), ask(student, function, before, same, dtype)
            check(got, number_of(alone, of=function), of=function, hint="hw.peak_flops[dtype]")
        for factor in (1.01, 0.99):
            work = (float(ridge(hw, dtype) * Fraction(factor)) * 1e9, 1e9)
            got, alone = (ask(student, "is_compute_bound", work, fields, dtype) for fields in (hw, same))
            expect.value(alone, alone is True, of="is_compute_bound")  # a bool, whichever
            expect.value(got, alone, of="is_compute_bound", hint="hw.peak_flops[dtype]")


def test_a_dtype_without_a_peak_is_refused(student, rng):
    """A dtype that the device has no peak for is a ValueError that names dtype."""
    hw = device(rng)
    for function, before in [
        ("accelerator_intensity", ()),
        ("roofline_seconds", (1e12, 1e9)),
        ("is_compute_bound", (1e12, 1e9)),
        ("mfu", (1e12, 1.0)),
        ("attainable_mfu", (3.0,)),
    ]:
        ask(student, function, before, hw, torch.float32)
        for dtype in (torch.int8, torch.float8_e5m2):
            with expect.raises(ValueError, of=function, when="hw has no peak for the dtype", naming="dtype"):
                ask(student, function, before, hw, dtype)


def test_zero_is_an_amount(student, rng):
    """A copy computes nothing, a fill reads nothing, and work in registers moves nothing: these are no errors."""
    hw, amount = device(rng), integer(rng, 10**9, 10**12)
    peak, bandwidth = Fraction(hw["peak_flops"][torch.float32]), Fraction(hw["memory_bandwidth"])
    for function, before, expected in [
        ("roofline_seconds", (0, amount), amount / bandwidth),
        ("roofline_seconds", (amount, 0), amount / peak),
        ("mfu", (0, 2.0), 0),
        ("attainable_mfu", (0.0,), 0),
    ]:
        check(ask(student, function, before, hw, torch.float32), expected, of=function)
    for work, expected in [((amount, 0), True), ((0, amount), False)]:
        got = ask(student, "is_compute_bound", work, hw, torch.float32)
        expect.value(got, expected, of="is_compute_bound", hint="compare times: a ratio divides by 0 where no byte is moved")
    check(student.resource_accounting.elementwise_intensity(0, 1, 1, torch.float16), 0, of="elementwise_intensity")
    for read, written in [(0, 1), (2, 0)]:
        got = student.resource_accounting.elementwise_intensity(2.0, read, written, torch.float16)
        expect.that(number_of(got, of="elementwise_intensity") > 0, "not above 0", of="elementwise_intensity")


def test_matmul_intensity_refuses_wrong_sizes(student):
    """A size below 1 is a ValueError."""
    student.resource_accounting.matmul_intensity(1, 2, 3, torch.float32)
    for sizes in [(0, 2, 3), (2, 0, 3), (2, 3, 0), (-2, 3, 4), (2, -3, 4), (2, 3, -4)]:
        with expect.raises(ValueError, of="matmul_intensity", when="a size is below 1"):
            student.resource_accounting.matmul_intensity(*sizes, torch.float32)


def test_elementwise_intensity_refuses_wrong_counts(student):
    """A negative count is a ValueError that names the argument; so is an operation that moves no tensor."""
    student.resource_accounting.elementwise_intensity(1.0, 2, 1, torch.float32)
    for name, arguments in [
        ("flops_per_element", (-1.0, 1, 1)),
        ("tensors_read", (1.0, -1, 3)),
        ("tensors_written", (1.0, 3, -1)),
    ]:
        with expect.raises(ValueError, of="elementwise_intensity", when=f"{name} is negative", naming=name):
            student.resource_accounting.elementwise_intensity(*arguments, torch.float32)
    with expect.raises(ValueError, of="elementwise_intensity", when="no tensor is read or written"):
        student.resource_accounting.elementwise_intensity(1.0, 0, 0, torch.float32)


def test_negative_work_is_refused(student, rng):
    """Negative FLOPs, bytes or intensities are a ValueError that names the argument."""
    hw = device(rng)
    for function, name, right, wrong in [
        ("roofline_seconds", "flops", (1e9, 1e9), (-1e9, 1e9)),
        ("roofline_seconds", "bytes_moved", (1e9, 1e9), (1e9, -1e9)),
        ("is_compute_bound", "flops", (1e9, 1e9), (-1e9, 1e9)),
        ("is_compute_bound", "bytes_moved", (1e9, 1e9), (1e9, -1e9)),
        ("mfu", "flops", (1e9, 1.0), (-1e9, 1.0)),
        ("attainable_mfu", "intensity", (3.0,), (-3.0,)),
    ]:
        ask(student, function, right, hw, torch.float32)
        with expect.raises(ValueError, of=function, when=f"{name} is negative", naming=name):
            ask(student, function, wrong, hw, torch.float32)


def test_mfu_refuses_no_time_and_no_devices(student, rng):
    """A time that is not above 0, or fewer than one device, is a ValueError that names the argument."""
    hw = device(rng)
    ask(student, "mfu", (1e12, 1.0), hw, torch.float32, 2)
    for name, seconds, num_devices in [
        ("seconds", 0.0, 1),
        ("seconds", -2.0, 1),
        ("num_devices", 1.0, 0),
        ("num_devices", 1.0, -2),
    ]:
        with expect.raises(ValueError, of="mfu", when=f"{name} is not above 0", naming=name):
            ask(student, "mfu", (1e12, seconds), hw, torch.float32, num_devices)
