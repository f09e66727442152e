"""roofline: intensities, the shortest time that a device needs, and the fraction of peak it
reaches.

Any order of operations is accepted, and any formula that is equal in real numbers, to within 1e-12.
Hardware and its three constants are given, not judged: the tests use made-up devices with their own
numbers, so that no constant can replace the values in `hw`. promises/roofline.toml lists the inputs
that the stubs do not promise.

The oracles are the definitions in exact rational arithmetic. Every test of a formula uses a device
with one peak for all dtypes, so a solution that takes the wrong dtype's peak fails only one test.
"""

import itertools
import math
from fractions import Fraction

import pytest
import torch

from kit import expect
from kit.student import call_each
from tests.probes import resource_accounting as probes

# Relative. A formula that uses logarithms is accurate to about 34 eps, one that adds up peaks to
# about 600.
TOLERANCE = 1e-12
DTYPES = [torch.float64, torch.float32, torch.bfloat16, torch.float16, torch.float8_e4m3fn]
# More dtypes, most of which have no peak on any device.
OTHERS = ["float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz", "bool", "int8", "int16", "int32"]
OTHERS += ["int64", "uint8", "uint16", "uint32", "uint64", "complex32", "complex64", "complex128"]
BIG = 2**53 + 1  # the first int that is not a float


def integer(rng, low, high):
    return int(torch.randint(low, high, (), generator=rng))


def uniform(rng, low, high):
    return float(torch.empty((), dtype=torch.float64).uniform_(low, high, generator=rng))


def device(rng, *, one_peak=True):
    """The fields of a made-up device, with one peak for all dtypes or a different one for each."""
    peak = uniform(rng, 1e13, 9e14)
    times = (
        [1] * len(DTYPES) if one_peak else (1 + torch.randperm(len(DTYPES), generator=rng)).tolist()
    )
    return {
        "name": "made up",
        "peak_flops": {dtype: peak * n for dtype, n in zip(DTYPES, times, strict=True)},
        "memory_bandwidth": uniform(rng, 1e11, 9e12),
        "memory_bytes": integer(rng, 10**9, 10**11),
    }


def devices(rng):
    """Made-up devices; bandwidths, like all floats, may be ints, large or small."""
    several = [device(rng) for _ in range(3)]
    for bandwidth in (integer(rng, 10**11, 10**13), BIG, 1, 1e-6):
        several.append({**device(rng), "memory_bandwidth": bandwidth})
    return several + almost_alike(several[0], rng)


def combined(rng, sizes, factors):
    """Each size with each factor, on two of the devices; each device gets several."""
    pairs = [*itertools.product(sizes, factors)] * 2
    return zip(itertools.cycle(devices(rng)), pairs, strict=False)


def almost_alike(hw, rng):
    """Devices that differ from this one in one number each, which decides the answer."""
    peaks = {dtype: 3 * peak for dtype, peak in hw["peak_flops"].items()}
    return [{**hw, "memory_bandwidth": uniform(rng, 1e10, 9e10)}, {**hw, "peak_flops": peaks}]


def ridge(hw, dtype=torch.float32):
    """FLOPs per byte at which compute and memory take equally long."""
    return Fraction(hw["peak_flops"][dtype]) / Fraction(hw["memory_bandwidth"])


def ask(student, function, before, hw, *after):
    """Call the student's function with the arguments `before`, the device and `after`."""
    return student.run(
        probes.with_hardware, function=function, hardware=hw, before=before, after=after
    )


def ask_each(student, function, cases):
    """The answers for cases of (before, hardware, after), one after the other."""
    return student.run(probes.each_case, function=function, kind="hardware", cases=cases)


def number_of(got, *, of):
    """Check that `got` is a finite number above 0, and return it as a Fraction."""
    expect.number(got, got, of=of, tolerance=0.0)
    # The oracle uses this number in later computations.
    expect.that(0 < got < 1e100, "expected a number above 0 and below 1e100", of=of)
    return Fraction(got)


def check(got, expected, *, of, hint=None):
    """Check that a number agrees with an exact one up to rounding."""
    expect.number(
        got, float(expected), of=of, tolerance=TOLERANCE * abs(float(expected)), hint=hint
    )


@pytest.mark.core
@pytest.mark.points(2)
def test_accelerator_intensity(student, rng):
    """A device's intensity is its peak FLOP/s divided by its memory bandwidth (FLOP per byte)."""
    for hw in devices(rng):
        got = ask(student, "accelerator_intensity", (), hw, torch.float32)
        check(
            got,
            ridge(hw),
            of="accelerator_intensity",
            hint="FLOP/s divided by bytes/s is FLOP per byte",
        )


@pytest.mark.core
@pytest.mark.points(3)
def test_matmul_intensity(student, rng):
    """A product of m × k and k × n takes 2mkn FLOPs and moves A, B and C once each."""
    sizes = [integer(rng, 2, 50), integer(rng, 60, 900), integer(rng, 1000, 90_000)]
    order = [sizes[i] for i in torch.randperm(3, generator=rng).tolist()]
    others = [(1, *order[:2]), (*order[:2], 1), (order[0], 1, order[1]), (order[0],) * 3]
    # No matrix has more than 2**63 bytes. The last product has more than 2**63 FLOPs.
    large = [(BIG, 3, 5), (3, BIG, 5), (3, 5, BIG), (2**21, 2**22, 2**21)]
    for m, k, n in [order, *others, (1, 1, 1), *large]:
        got = student.resource_accounting.matmul_intensity(m, k, n, torch.bfloat16)
        expected = Fraction(2 * m * k * n, 2 * (m * k + k * n + m * n))
        check(
            got,
            expected,
            of="matmul_intensity",
            hint="which three matrices are moved, and what are their shapes?",
        )


@pytest.mark.core
@pytest.mark.points(2)
def test_elementwise_intensity(student, rng):
    """An elementwise operation moves every tensor that it reads and every tensor that it writes."""
    of, cases = "elementwise_intensity", []
    for tensors in [
        (integer(rng, 2, 5), integer(rng, 6, 9)),
        (1, 1),
        (2, 1),
        (integer(rng, 3, 9), 1),
        (1, 2),
    ]:
        floats = [uniform(rng, *ends) for ends in [(0.5, 20), (1e-3, 1e-2), (1e4, 1e6)]]
        cases += [(flops, *tensors) for flops in (*floats, 1, integer(rng, 2, 99), 1e-6, BIG)]
    calls = [(*case, torch.bfloat16) for case in cases]
    answers = student.run(call_each, module="resource_accounting", function=of, calls=calls)
    for got, (flops, read, written) in zip(answers, cases, strict=True):
        expected = Fraction(flops) / (2 * (read + written))
        hint = "the FLOPs per element divided by the bytes per element, read and written"
        check(got, expected, of=of, hint=hint)


@pytest.mark.points(2)
def test_intensities_count_the_bytes_of_the_dtype(student, rng):
    """The same work in a dtype with twice the bytes has half the intensity."""
    m, k, n = (integer(rng, 2, 99) for _ in range(3))
    for function, arguments in [
        ("matmul_intensity", (m, k, n)),
        ("elementwise_intensity", (3.0, 2, 1)),
    ]:
        of_two_bytes = number_of(
            getattr(student.resource_accounting, function)(*arguments, torch.float16), of=function
        )
        names = [str(dtype).removeprefix("torch.") for dtype in DTYPES] + OTHERS
        inputs = {"function": function, "arguments": arguments, "dtypes": names}
        answers = student.run(probes.in_dtypes, **inputs)
        for name, got in zip(names, answers, strict=True):
            hint = "how many bytes does one element of this dtype take?"
            expected = of_two_bytes * 2 / getattr(torch, name).itemsize
            check(got, expected, of=function, hint=hint)


def ints_on_either_side(hw, rng):
    """FLOPs and bytes that are ints, above and below the ridge of a device."""
    ratio = int(ridge(hw)) + 1
    n = integer(rng, 10, 1000)
    works = [(1, 1), (1, n * ratio), (n * ratio, 1), (BIG, n * BIG), (BIG * n * ratio, BIG)]
    return [*works, (n, ratio * n * n), (ratio * n * n, n)]


@pytest.mark.core
@pytest.mark.points(3)
def test_roofline_seconds_is_the_longer_time(student, rng):
    """Compute and memory traffic overlap, so the time is the longer of the two, not their sum."""
    works = []
    sizes = (1e-6, 1e3, 1e9, 1e15, 1e24)  # from less than a FLOP to a training run
    for hw, (size, factor) in combined(rng, sizes, (100.0, 1.5, 0.7, 0.01)):
        flops = size * uniform(rng, 1, 10)
        works += [(hw, flops, float(Fraction(flops) / (ridge(hw) * Fraction(factor))))]
    of_ints = ints_on_either_side(hw, rng)
    works += [(hw, *work) for hw in (hw, *almost_alike(hw, rng)) for work in of_ints]
    of = "roofline_seconds"
    answers = ask_each(student, of, [(work, hw, (torch.float32,)) for hw, *work in works])
    for got, (hw, flops, bytes_moved) in zip(answers, works, strict=True):
        compute = Fraction(flops) / Fraction(hw["peak_flops"][torch.float32])
        traffic = Fraction(bytes_moved) / Fraction(hw["memory_bandwidth"])
        check(got, max(compute, traffic), of=of, hint="the longer of the two times, unrounded")


@pytest.mark.points(2)
def test_is_compute_bound_on_either_side_of_the_ridge(student, rng):
    """Work is compute-bound if its intensity is above the device's, and memory-bound if below."""
    works = []
    factors = (1e-3, 0.99, 1 - 1e-9, 1 + 1e-9, 1.01, 1e3)
    for hw, (size, factor) in combined(rng, (1e-6, 1e3, 1e9, 1e20), factors):
        bytes_moved = size * uniform(rng, 1, 10)
        flops = float(Fraction(bytes_moved) * ridge(hw) * Fraction(factor))
        works += [(hw, flops, bytes_moved)]
    of_ints = ints_on_either_side(hw, rng)
    works += [(hw, *work) for work in of_ints]
    # The same work on devices on which it is on the other side.
    middle = float(ridge(hw)) * 1e9
    slow, fast = ({**hw, "memory_bandwidth": hw["memory_bandwidth"] * by} for by in (0.5, 2.0))
    peaks = {dtype: 3 * peak for dtype, peak in hw["peak_flops"].items()}
    for other in (hw, slow, fast, {**hw, "peak_flops": peaks}):
        works += [(other, middle * factor, 1e9) for factor in (0.9, 1.1)]
    of, hint = "is_compute_bound", "which takes longer, computing or moving the bytes?"
    answers = ask_each(student, of, [(work, hw, (torch.float32,)) for hw, *work in works])
    for got, (hw, flops, bytes_moved) in zip(answers, works, strict=True):
        expect.value(got, Fraction(flops) > Fraction(bytes_moved) * ridge(hw), of=of, hint=hint)


@pytest.mark.core
@pytest.mark.points(3)
def test_mfu_counts_every_device(student, rng):
    """MFU is the FLOPs divided by what num_devices devices (1 by default) could compute."""
    cases = []
    for num_devices in (1, integer(rng, 2, 9), integer(rng, 100, 5000)):
        for scale in (1e-9, 1.0, 1e6):
            hw, seconds, share = device(rng), scale * uniform(rng, 0.1, 9), uniform(rng, 0.001, 0.9)
            possible = Fraction(hw["peak_flops"][torch.float32]) * Fraction(seconds) * num_devices
            flops = float(possible * Fraction(share))
            given = [(num_devices,)] + [()] * (num_devices == 1)
            cases += [(flops, seconds, hw, after) for after in given]
    hw = device(rng)
    for flops in (1, 1e-6, integer(rng, 10**9, 10**12)):
        cases += [(flops, seconds, hw, (2,)) for seconds in (1, integer(rng, 2, 100))]
    cases += [(BIG, BIG, hw, ()), (1, 1, hw, (3,)), (1, 1, hw, ())]
    cases += [(1, 1, other, (2,)) for other in almost_alike(hw, rng)]
    asked = [((flops, s), hw, (torch.float32, *after)) for flops, s, hw, after in cases]
    for got, (flops, seconds, hw, after) in zip(
        ask_each(student, "mfu", asked), cases, strict=True
    ):
        possible = (
            Fraction(hw["peak_flops"][torch.float32]) * Fraction(seconds) * sum(after or (1,))
        )
        hint = "the peak of all devices together, for this many seconds"
        check(got, Fraction(flops) / possible, of="mfu", hint=hint)


def test_mfu_above_one_is_returned(student, rng):
    """An MFU above 1 shows a wrong measurement, so it is neither clamped nor refused."""
    hw, excess = device(rng), uniform(rng, 2, 9)
    least = 1.5 * hw["peak_flops"][torch.float32] / 100

    def measured(flops, seconds, *num_devices):
        got = ask(student, "mfu", (flops, seconds), hw, torch.float32, *num_devices)
        return number_of(got, of="mfu")

    lower, higher, longer = (
        measured(least, 0.01),
        measured(excess * least, 0.01),
        measured(least, 0.02),
    )
    # Compare ratios, so that a mistake in the formula costs nothing here.
    reason = "twice the seconds do not halve the MFU"
    expect.that(abs(lower / longer - 2) < 1e-3, reason, of="mfu")
    # From 1.1 and far above it to below 1, on one device and on two.
    several = measured(2 * excess * least, 0.01, 2)
    cases = [(higher / lower, excess), (several / measured(0.2 * excess * least, 0.01, 2), 10)]
    for times in (0.11 / 0.15, 0.15, 1e7):
        cases += [(measured(times * least, 0.01) / lower, times)]
    for got, expected in cases:
        expect.number(
            float(got),
            expected,
            of="mfu",
            tolerance=1e-3 * expected,
            hint="return the quotient unchanged, even above 1",
        )


@pytest.mark.points(2)
def test_attainable_mfu_rises_to_one(student, rng):
    """The attainable MFU is the work's intensity divided by the device's, but at most 1."""
    works = [
        (hw, intensity) for hw in devices(rng) for intensity in (1, integer(rng, 2, 99), 1e-6, BIG)
    ]
    hw = device(rng)
    works += [(hw, float(ridge(hw)) * factor) for factor in (0.9995, 1 - 1e-9)]
    for factor in (1e-6, 1e-4, 1e-2, 0.1, 1.01, 20.0, 1e6):
        works += [(hw, float(ridge(hw)) * factor * (uniform(rng, 1, 9) if factor < 1 else 1))]
    asked = [((intensity,), hw, (torch.float32,)) for hw, intensity in works]
    answers = ask_each(student, "attainable_mfu", asked)
    for answer, (hw, intensity) in zip(answers, works, strict=True):
        got = number_of(answer, of="attainable_mfu")
        roof = min(Fraction(1), Fraction(intensity) / ridge(hw))
        if abs(got - roof) > TOLERANCE * roof:
            # The answer may be based on the student's own accelerator_intensity, which is judged
            # above.
            own = number_of(
                ask(student, "accelerator_intensity", (), hw, torch.float32),
                of="accelerator_intensity",
            )
            roof = min(Fraction(1), Fraction(intensity) / own)
        check(
            float(got),
            roof,
            of="attainable_mfu",
            hint="min(1, the work's intensity / the device's), unrounded",
        )


def fewest_rows(k, n, hw, dtype):
    """The exact number of rows, not rounded; None if no number is enough."""
    weight = ridge(hw, dtype) * dtype.itemsize
    per_row = 2 * k * n - weight * (k + n)
    return weight * k * n / per_row if per_row > 0 else None


@pytest.mark.core
@pytest.mark.points(4)
def test_min_rows(student, rng):
    """A product is compute-bound from min_rows rows on: fewer rows are memory-bound.

    For a matrix so small that no number of rows is enough, min_rows is None.
    """
    cases = []
    while len(cases) < 40:
        # Up to 30 times the smallest square matrix for which there is a number.
        dtype, hw = DTYPES[len(cases) % len(DTYPES)], device(rng, one_peak=False)
        least = float(ridge(hw, dtype)) * dtype.itemsize
        k, n = (1 + int(least * uniform(rng, 0.3, 30)) for _ in range(2))
        rows = fewest_rows(k, n, hw, dtype)
        # Keep away from numbers that rounding decides.
        margin = abs(2 * k * n - least * (k + n)) / (2 * k * n)
        if margin > 0.01 and (rows is None or 0.05 < rows % 1 < 0.95):
            cases.append((k, n, hw, dtype, rows))
    for bandwidth in (1e-6, 1, integer(rng, 10**5, 10**6)):
        slow = {**device(rng), "memory_bandwidth": bandwidth}
        cases += [(k, n, slow, torch.float32, None) for k, n, *_ in cases[:2]]
    fast = {**device(rng), "memory_bandwidth": BIG}  # compute-bound from the first row on
    cases += [(1, 1, device(rng), torch.float32, None), (9000, 7000, fast, torch.float32, 1)]
    # The limit is 1.75 FLOPs per byte and the device's intensity 1.25.
    even = {**device(rng), "peak_flops": {torch.float32: 5e12}, "memory_bandwidth": 4e12}
    cases += [(7, 7, even, torch.float32, fewest_rows(7, 7, even, torch.float32))]
    # The limit is 1.75 and the device's intensity just below it: a million rows are enough.
    near = {**even, "peak_flops": {torch.float32: 7e12 - 22270015}}
    cases += [(7, 7, near, torch.float32, fewest_rows(7, 7, near, torch.float32))]
    k, n, hw, dtype, _ = next(case for case in cases if case[-1])
    for sizes in [(BIG, n), (k, BIG), (BIG, BIG), (1, BIG), (BIG, 1)]:
        cases += [(*sizes, hw, dtype, fewest_rows(*sizes, hw, dtype))]
    asked = [((k, n), hw, (dtype,)) for k, n, hw, dtype, _ in cases]
    answers = ask_each(student, "min_rows", asked)
    for got, (*_, rows) in zip(answers, cases, strict=True):
        if rows is None:
            hint = "with many rows the intensity comes close to a limit: is it high enough?"
            expect.value(got, None, of="min_rows", hint=hint)
        else:
            hint = "None only if no number of rows is enough"
            expect.kind(got, int, of="min_rows", optional=True, hint=hint)
            hint = "solve 2mkn / peak = bytes / bandwidth for m, with all three matrices"
            expect.value(got, math.ceil(rows), of="min_rows", hint=hint)


@pytest.mark.points(2)
def test_the_peak_is_that_of_the_dtype(student, rng):
    """Each dtype has its own peak, and every function uses the peak of the given dtype."""
    hw = device(rng, one_peak=False)
    hint = "hw.peak_flops[dtype]"
    intensities = [
        float(ridge(hw, dtype)) * factor for dtype in DTYPES for factor in (1e-10, 0.1, 0.99, 1.01)
    ]
    works = {
        "accelerator_intensity": [()],
        "roofline_seconds": [(intensity * 1e9, 1e9) for intensity in intensities],
        "is_compute_bound": [(intensity * 1e9, 1e9) for intensity in intensities],
        "mfu": [(1e15, 7.0)],
        "attainable_mfu": [(intensity,) for intensity in intensities],
    }
    # What the student's own code returns for a device that has no other peak.
    same = [{**hw, "peak_flops": {dtype: hw["peak_flops"][dtype]}} for dtype in DTYPES]
    devices = [(hw, (dtype,)) for dtype in DTYPES]
    devices += [(fields, (dtype,)) for fields, dtype in zip(same, DTYPES, strict=True)]
    for function, befores in works.items():
        inputs = {"function": function, "devices": devices, "befores": befores}
        results = student.run(probes.with_each_hardware, **inputs)
        answers = results[: len(DTYPES)]
        for of_device, of_same in zip(answers, results[len(DTYPES) :], strict=True):
            for got, alone in zip(of_device, of_same, strict=True):
                expect.kind(alone, (float, int, bool), of=function)
                expect.value(got, alone, of=function, hint=hint)
        varies = any(answer != answers[0] for answer in answers)
        expect.that(
            varies, "the same answers for dtypes of different peaks", of=function, hint=hint
        )


def test_amounts_of_0(student, rng):
    """No FLOPs take no time, no bytes take no time, and an intensity of 0 reaches nothing.

    A product whose limit is exactly the ridge gains 0 on it with each row, and never reaches it.
    """
    m, n = (integer(rng, 2, 99) for _ in range(2))
    ra, hw, bf16 = student.resource_accounting, device(rng), torch.bfloat16

    def seconds(*work):
        return ask(student, "roofline_seconds", work, hw, bf16)

    # Compare with the student's own answers, so that a mistake in a formula costs nothing here.
    amount, none = uniform(rng, 1e9, 1e15), 1e-9
    for of, got, alike in [
        ("roofline_seconds", seconds(amount, 0), seconds(amount, none)),
        ("roofline_seconds", seconds(0.0, amount), seconds(none, amount)),
        *(
            ("elementwise_intensity", *(ra.elementwise_intensity(m, *t, bf16) for t in both))
            for both in [((0, 3), (1, 2)), ((3, 0), (2, 1))]
        ),
    ]:
        check(got, number_of(alike, of=of), of=of)
    check(ra.elementwise_intensity(0, m, n, bf16), 0, of="elementwise_intensity")
    both = number_of(ra.elementwise_intensity(m, 1, 1, bf16), of="elementwise_intensity")
    for alone in [(0, 1), (1, 0)]:
        got = ra.elementwise_intensity(m, *alone, bf16)
        check(got, 2 * both, of="elementwise_intensity", hint="one tensor is half of two")
    check(seconds(0, 0), 0, of="roofline_seconds")
    for of, before in [("mfu", (0, amount)), ("attainable_mfu", (0.0,))]:
        check(ask(student, of, before, hw, bf16), 0, of=of)
    for before, expected in [((amount, 0), True), ((0, amount), False), ((1, 0.0), True)]:
        got = ask(student, "is_compute_bound", before, hw, bf16)
        hint = "compare the two times: an intensity is not defined without bytes"
        expect.value(got, expected, of="is_compute_bound", hint=hint)
    level = {**hw, "peak_flops": {torch.float32: 2.0**46}, "memory_bandwidth": 2.0**40}
    for sizes in [(256, 256), (192, 384)]:
        got = ask(student, "min_rows", sizes, level, torch.float32)
        if got is not None:  # logarithms may leave a limit just above the ridge
            expect.kind(got, int, of="min_rows", optional=True)
            expect.that(got > 10**6, "rows whose limit is the ridge are enough", of="min_rows")


def test_a_dtype_without_a_peak_is_refused(student, rng):
    """A dtype without a peak raises an error; no other dtype's peak is used instead."""
    hw = device(rng)
    for dtype in (torch.bfloat16, torch.float64):  # others of these sizes have a peak
        del hw["peak_flops"][dtype]
    hw["peak_flops"][torch.int64] = hw["peak_flops"][torch.float32]
    missing = [torch.int8, torch.float8_e5m2, torch.bfloat16, torch.float64, torch.complex64]
    for function, before in [
        ("accelerator_intensity", ()),
        ("roofline_seconds", (1e12, 1e9)),
        ("roofline_seconds", (0, 1e9)),
        ("roofline_seconds", (1.0, 1e30)),
        ("is_compute_bound", (1e12, 1e9)),
        ("is_compute_bound", (0.0, 1e9)),
        ("mfu", (1e12, 1.0)),
        ("mfu", (0, 1.0)),
        ("attainable_mfu", (3.0,)),
        ("attainable_mfu", (0.0,)),
        ("attainable_mfu", (1e30,)),
        ("min_rows", (10**5, 10**5)),
        ("min_rows", (1, 1)),
    ]:
        with expect.right_call("a dtype that the device has a peak for"):
            got = ask(student, function, before, hw, torch.float32)
            expect.kind(got, (float, int, bool, type(None)), of=function)
        # Once for each function, and then only two where an amount of 0 or a huge one is given.
        usual = before in [(), (1e12, 1e9), (1e12, 1.0), (3.0,), (1, 1)]
        for dtype in missing if usual else missing[:2]:
            with expect.raises(
                (ValueError, KeyError), of=function, when="hw has no peak for the dtype"
            ):
                ask(student, function, before, hw, dtype)
