"""roofline: intensities, the shortest time that a device needs, and the fraction of peak it
reaches.

Any order of operations is accepted, and any formula that is equal in real numbers. Hardware and its
three constants are given, not judged: the tests use made-up devices with their own numbers, so that
no constant can replace the values in `hw`.

The oracles are the definitions in exact rational arithmetic. Every test of a formula but min_rows
uses a device with one peak for all dtypes, so a solution that takes the wrong dtype's peak fails
only one test.
"""

import math
from fractions import Fraction

import pytest
import torch

from kit import expect
from tests.hidden import DTYPES, TOLERANCE, check_number, device, integer, uniform
from tests.probes import resource_accounting as probes


def ridge(hw, dtype=torch.float32):
    """FLOPs per byte at which compute and memory take equally long."""
    return Fraction(hw["peak_flops"][dtype]) / Fraction(hw["memory_bandwidth"])


def ask(student, function, before, hw, *after):
    given = {"function": function, "hardware": hw, "before": before, "after": after}
    return student.run(probes.with_hardware, **given)


def number_of(got, *, of):
    """Check that `got` is a finite number above 0, and return it as a Fraction."""
    expect.number(got, got, of=of, tolerance=0.0)
    # The oracle uses this number in later computations.
    expect.that(0 < got < 1e100, "expected a number above 0 and below 1e100", of=of)
    return Fraction(got)


# Stays: functions that use it are judged by the student's own intensity where they can be.
@pytest.mark.harm("wrong number")
def test_accelerator_intensity(student, rng):
    """A device's intensity is its peak FLOP/s divided by its memory bandwidth (FLOP per byte)."""
    for hw in [device(rng, one_peak=True) for _ in range(3)]:
        of, hint = "accelerator_intensity", "FLOP/s divided by bytes/s is FLOP per byte"
        check_number(ask(student, of, (), hw, torch.float32), ridge(hw), of=of, hint=hint)


@pytest.mark.harm("wrong number")
def test_matmul_intensity(student, rng):
    """A product of m × k and k × n takes 2mkn FLOPs and moves A, B and C once each."""
    sizes = [integer(rng, 2, 50), integer(rng, 60, 900), integer(rng, 1000, 90_000)]
    order = [sizes[i] for i in torch.randperm(3, generator=rng).tolist()]
    others = [(1, *order[:2]), (*order[:2], 1), (order[0], 1, order[1]), (order[0],) * 3]
    # The last product has more than 2**63 FLOPs.
    for m, k, n in [order, *others, (2**21, 2**22, 2**21)]:
        got = student.resource_accounting.matmul_intensity(m, k, n, torch.bfloat16)
        expected = Fraction(2 * m * k * n, 2 * (m * k + k * n + m * n))
        hint = "which three matrices are moved, and what are their shapes?"
        check_number(got, expected, of="matmul_intensity", hint=hint)


@pytest.mark.harm("wrong number")
def test_elementwise_intensity(student, rng):
    """An elementwise operation moves every tensor that it reads and every tensor that it writes."""
    for read, written in [(integer(rng, 2, 5), integer(rng, 6, 9)), (1, 1), (2, 1), (1, 2)]:
        for flops in (1, integer(rng, 2, 99), uniform(rng, 0.5, 20)):
            work = (flops, read, written, torch.bfloat16)
            got = student.resource_accounting.elementwise_intensity(*work)
            expected = Fraction(flops) / (2 * (read + written))
            hint = "the FLOPs per element divided by the bytes per element, read and written"
            check_number(got, expected, of="elementwise_intensity", hint=hint)


@pytest.mark.harm("wrong number")
def test_intensities_count_the_bytes_of_the_dtype(student, rng):
    """The same work in a dtype with twice the bytes has half the intensity."""
    m, k, n = (integer(rng, 2, 99) for _ in range(3))
    for of, arguments in [("matmul_intensity", (m, k, n)), ("elementwise_intensity", (3, 2, 1))]:
        call = getattr(student.resource_accounting, of)
        of_two_bytes = number_of(call(*arguments, torch.float16), of=of)
        for dtype in [*DTYPES, torch.float8_e5m2, torch.int8, torch.int64]:
            hint = "how many bytes does one element of this dtype take?"
            expected = of_two_bytes * 2 / dtype.itemsize
            check_number(call(*arguments, dtype), expected, of=of, hint=hint)


@pytest.mark.harm("wrong number")
def test_roofline_seconds_is_the_longer_time(student, rng):
    """Compute and memory traffic overlap, so the time is the longer of the two, not their sum."""
    for size in (1e3, 1e9, 1e15, 1e24):  # up to a training run
        for factor in (100.0, 1.5, 0.7, 0.01):
            hw, flops = device(rng, one_peak=True), size * uniform(rng, 1, 10)
            bytes_moved = float(Fraction(flops) / (ridge(hw) * Fraction(factor)))
            got = ask(student, "roofline_seconds", (flops, bytes_moved), hw, torch.float32)
            compute = Fraction(flops) / Fraction(hw["peak_flops"][torch.float32])
            traffic = Fraction(bytes_moved) / Fraction(hw["memory_bandwidth"])
            hint = "the longer of the two times, unrounded"
            check_number(got, max(compute, traffic), of="roofline_seconds", hint=hint)


@pytest.mark.harm("wrong number")
def test_is_compute_bound_on_either_side_of_the_ridge(student, rng):
    """Work is compute-bound if its intensity is above the device's, and memory-bound if below."""
    of, hint = "is_compute_bound", "which takes longer, computing or moving the bytes?"
    for size in (1e3, 1e9, 1e20):
        for factor in (1e-3, 0.99, 1.01, 1e3):
            hw, bytes_moved = device(rng, one_peak=True), size * uniform(rng, 1, 10)
            flops = float(Fraction(bytes_moved) * ridge(hw) * Fraction(factor))
            got = ask(student, of, (flops, bytes_moved), hw, torch.float32)
            expect.value(got, factor > 1, of=of, hint=hint)


@pytest.mark.harm("wrong number")
def test_mfu(student, rng):
    """MFU is the FLOPs divided by what num_devices devices (1 by default) could compute.

    An MFU above 1 shows a wrong measurement, so it is neither clamped nor refused.
    """
    together = "the peak of all devices together, for this many seconds"
    shares = [(uniform(rng, 0.001, 0.9), together), (2.2, "an MFU above 1 is returned as it is")]
    for num_devices in ((), (1,), (integer(rng, 2, 9),), (integer(rng, 100, 5000),)):
        for seconds in (uniform(rng, 1e-5, 1e-4), integer(rng, 1, 99), uniform(rng, 1e5, 1e6)):
            for share, hint in shares:
                hw = device(rng, one_peak=True)
                possible = Fraction(hw["peak_flops"][torch.float32]) * Fraction(seconds)
                flops = float(possible * sum(num_devices or (1,)) * Fraction(share))
                got = ask(student, "mfu", (flops, seconds), hw, torch.float32, *num_devices)
                check_number(got, share, of="mfu", hint=hint)


@pytest.mark.harm("wrong number")
def test_attainable_mfu_rises_to_one(student, rng):
    """The attainable MFU is the work's intensity divided by the device's, but at most 1."""
    of, hint = "attainable_mfu", "min(1, the work's intensity / the device's), unrounded"
    for factor in (1e-4, 1e-2, 0.1, 0.5, 0.99, 1.01, 20.0):
        hw = device(rng, one_peak=True)
        intensity, roof = float(ridge(hw)) * factor, Fraction(min(1, factor))
        got = number_of(ask(student, of, (intensity,), hw, torch.float32), of=of)
        if abs(got - roof) > TOLERANCE * roof:
            # The answer may be based on the student's own accelerator_intensity, judged above.
            own = ask(student, "accelerator_intensity", (), hw, torch.float32)
            own = number_of(own, of="accelerator_intensity")
            roof = min(Fraction(1), Fraction(intensity) / own)
        check_number(float(got), roof, of=of, hint=hint)


def fewest_rows(k, n, hw, dtype):
    """The exact number of rows, not rounded; None if no number is enough."""
    weight = ridge(hw, dtype) * dtype.itemsize
    per_row = 2 * k * n - weight * (k + n)
    return weight * k * n / per_row if per_row > 0 else None


def layers(rng, *, is_enough):
    """Layers for which some number of rows is enough, or none is, on made-up devices.

    Neither a tie nor rounding decides.
    """
    cases = []
    while len(cases) < 15:
        # Up to 30 times the smallest square matrix for which there is a number.
        dtype, hw = DTYPES[len(cases) % len(DTYPES)], device(rng)
        least = float(ridge(hw, dtype)) * dtype.itemsize
        k, n = (1 + int(least * uniform(rng, 0.3, 30)) for _ in range(2))
        rows = fewest_rows(k, n, hw, dtype)
        margin = abs(2 * k * n - least * (k + n)) / (2 * k * n)
        near = margin < 0.01 or (rows is not None and not 0.05 < rows % 1 < 0.95)
        if not near and is_enough == (rows is not None):
            cases.append((k, n, hw, dtype, rows))
    return cases


@pytest.mark.harm("wrong number")
def test_min_rows(student, rng):
    """A product is compute-bound from min_rows rows on: fewer rows are memory-bound."""
    h100 = {"peak_flops": {torch.bfloat16: 989.5e12}, "memory_bandwidth": 3.35e12}
    # The weights are just large enough: it takes 139,473 rows.
    barely = (592, 592, {**device(rng, one_peak=True), **h100}, torch.bfloat16)
    for k, n, hw, dtype, rows in [*layers(rng, is_enough=True), (*barely, fewest_rows(*barely))]:
        got = ask(student, "min_rows", (k, n), hw, dtype)
        expect.kind(got, int, of="min_rows", optional=True)
        hint = "solve 2mkn / peak = bytes / bandwidth for m, with all three matrices; round up"
        expect.value(got, math.ceil(rows), of="min_rows", hint=hint)


@pytest.mark.harm("wrong number")
def test_min_rows_of_a_small_matrix(student, rng):
    """For a matrix so small that no number of rows is enough, min_rows is None."""
    k, n, hw, dtype, _ = layers(rng, is_enough=True)[0]
    expect.kind(ask(student, "min_rows", (k, n), hw, dtype), int, of="min_rows", optional=True)
    for k, n, hw, dtype, _ in layers(rng, is_enough=False):
        hint = "with many rows the intensity comes close to a limit: is it high enough?"
        expect.value(ask(student, "min_rows", (k, n), hw, dtype), None, of="min_rows", hint=hint)


# Stays: the tests of formulas use devices with one peak, so they miss a peak of another dtype.
@pytest.mark.harm("wrong number")
def test_the_peak_is_that_of_the_dtype(student, rng):
    """Each dtype has its own peak, and every function uses the peak of the given dtype."""
    hw = device(rng)
    middle = float(sorted(ridge(hw, dtype) for dtype in DTYPES)[len(DTYPES) // 2])
    for of, before in {
        "accelerator_intensity": (),
        "roofline_seconds": (1e6 * middle, 1.0),
        "is_compute_bound": (1.01 * middle, 1.0),
        "mfu": (1e15, 7.0),
        "attainable_mfu": (middle / 100,),
    }.items():
        answers = []
        for dtype, peak in hw["peak_flops"].items():
            got = ask(student, of, before, hw, dtype)
            # What the student's own code returns for a device that has no other peak.
            alone = ask(student, of, before, {**hw, "peak_flops": {dtype: peak}}, dtype)
            expect.kind(got, (float, int, bool), of=of)
            expect.value(got, alone, of=of, hint="hw.peak_flops[dtype]")
            answers.append(got)
        varies = any(answer != answers[0] for answer in answers)
        expect.that(varies, "the same answers for dtypes of different peaks", of=of)


# Stays: a solution with the right numbers may still take another peak where there is none.
@pytest.mark.harm("not refused")
def test_a_dtype_without_a_peak_is_refused(student, rng):
    """A dtype without a peak raises an error; no other dtype's peak is used instead."""
    hw = device(rng, one_peak=True)
    del hw["peak_flops"][torch.bfloat16]
    for of, before in {
        "accelerator_intensity": (),
        "roofline_seconds": (1e12, 1e9),
        "is_compute_bound": (1e12, 1e9),
        "mfu": (1e12, 1.0),
        "attainable_mfu": (3.0,),
        "min_rows": (10**5, 10**5),
    }.items():
        with expect.right_call("a dtype that the device has a peak for"):
            got = ask(student, of, before, hw, torch.float32)
            expect.kind(got, (float, int, bool, type(None)), of=of)
        for dtype in (torch.bfloat16, torch.float8_e5m2):
            with expect.raises((ValueError, KeyError), of=of, when="hw has no peak for the dtype"):
                ask(student, of, before, hw, dtype)
