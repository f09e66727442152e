"""roofline: how fast a device can be, and what limits it. Handout §5.1."""

import torch

from kit import expect


def test_intensities_of_the_examples(student):
    """In bfloat16 an H100 computes 295.4 FLOPs per byte that its memory delivers.

    A product of n = 1024 has 341.3 FLOPs per byte, and ReLU has 0.25.
    """
    ra = student.resource_accounting
    bf16, peak, of = torch.bfloat16, 989.5e12, "accelerator_intensity"
    got = ra.accelerator_intensity(ra.H100_SXM, bf16)
    hints = {
        3.35e12 / peak: "FLOPs per byte, and not bytes per FLOP",
        2 * peak / 3.35e12: "FLOPs per byte, and not per element of 2 bytes",
    }
    expect.number(got, 295.4, of=of, tolerance=0.05, inputs="H100_SXM, bfloat16", hints=hints)
    got, of = ra.matmul_intensity(1024, 1024, 1024, bf16), "matmul_intensity"
    hints = {
        512.0: "the result is written to memory, too",
        1024 / 6: "a multiply and an add are two FLOPs",
        256.0: "the result moves once, with 2 bytes per element",
        2048 / 3: "FLOPs per byte, and not per element of 2 bytes",
    }
    inputs = "1024, 1024, 1024, bfloat16"
    expect.number(got, 341.3, of=of, tolerance=0.05, inputs=inputs, hints=hints)
    got, of = ra.elementwise_intensity(1, 1, 1, bf16), "elementwise_intensity"
    hints = {0.5: "the result is written to memory, too", 0.125: "not every element takes 4 bytes"}
    inputs = "1 FLOP, 1 read, 1 written, bfloat16"
    expect.number(got, 0.25, of=of, tolerance=1e-6, inputs=inputs, hints=hints)


def test_roofline_seconds_of_the_example(student):
    """Computation and traffic overlap on an H100, so the longer of the two decides.

    1 s of computation with 2 s of traffic takes 2 s; with 0.5 s of traffic it takes 1 s.
    """
    ra = student.resource_accounting
    for bytes_moved, expected in [(6.7e12, 2.0), (1.675e12, 1.0)]:
        inputs = f"989.5e12 FLOPs, {bytes_moved:g} bytes, H100_SXM, bfloat16"
        got = ra.roofline_seconds(989.5e12, bytes_moved, ra.H100_SXM, torch.bfloat16)
        traffic = 2 * bytes_moved / 6.7e12
        hints = {
            1 + traffic: "computation and traffic overlap: their times do not add up",
            min(1.0, traffic): "computing takes 1 s, and the longer of the two times decides",
        }
        more = {"tolerance": 1e-6, "inputs": inputs, "hints": hints}
        expect.number(got, expected, of="roofline_seconds", **more)


def test_square_matmul_is_compute_bound_from_887(student):
    """Products of square bfloat16 matrices are compute-bound on an H100 from n = 887.

    At n = 886 the product still waits for memory.
    """
    ra = student.resource_accounting
    for n, expected in [(886, False), (887, True)]:
        got = ra.is_compute_bound(2 * n**3, 3 * n**2 * 2, ra.H100_SXM, torch.bfloat16)
        inputs, hint = (f"n = {n}, H100_SXM, bfloat16", "is computing what takes longer?")
        expect.value(got, expected, of="is_compute_bound", inputs=inputs, hint=hint)


def test_mfu_of_the_example(student):
    """3.958e15 FLOPs in one second are half of what 8 H100 can compute.

    They are 4 times what one H100 can compute: 4.0, not clamped.
    """
    ra = student.resource_accounting
    for num_devices, expected in [(8, 0.5), (1, 4.0)]:
        inputs = f"3.958e15 FLOPs, 1 s, H100_SXM, bfloat16, {num_devices} devices"
        got = ra.mfu(3.958e15, 1.0, ra.H100_SXM, torch.bfloat16, num_devices)
        hints = {
            8: {
                4.0: "the peak of all devices together: that of one, times their number",
                32.0: "divide by the number of devices",
                50.0: "a share, and not a percentage",
                0.25: "this is the peak with sparsity: use the device's peak_flops",
            },
            1: {1.0: "an MFU above 1 shows that something was counted or timed wrong: return it"},
        }[num_devices]
        expect.number(got, expected, of="mfu", tolerance=1e-6, inputs=inputs, hints=hints)


def test_attainable_mfu_of_the_example(student):
    """1 FLOP per byte reaches 1 / 295.4 of the peak of an H100 in bfloat16.

    341.3 FLOPs per byte can reach all of it.
    """
    ra = student.resource_accounting
    for intensity, expected in [(1.0, 0.003386), (341.3, 1.0)]:
        inputs = f"{intensity} FLOP per byte, H100_SXM, bfloat16"
        got = ra.attainable_mfu(intensity, ra.H100_SXM, torch.bfloat16)
        hints = {341.3 * 3.35e12 / 989.5e12: "no work can do more than the peak: the most is 1"}
        hints = hints if intensity > 1 else {1.0: "1 FLOP per byte leaves the peak mostly unused"}
        of = "attainable_mfu"
        expect.number(got, expected, of=of, tolerance=1e-6, inputs=inputs, hints=hints)


def test_min_rows_of_the_examples(student):
    """A 2,048 × 8,192 matrix becomes compute-bound on an H100 in bfloat16 at 361 rows.

    A 512 × 512 matrix never does, and in float32 the first one needs fewer rows.
    """
    ra, bf16 = student.resource_accounting, torch.bfloat16
    for k, n, dtype, expected in [
        (2048, 8192, bf16, 361),
        (512, 512, bf16, None),
        (2048, 8192, torch.float32, 42),
    ]:
        got, inputs = ra.min_rows(k, n, ra.H100_SXM, dtype), f"{k}, {n}, H100_SXM, {dtype}"
        hints = {
            361: {
                296: "this is the device's intensity: the rows and the result are moved, too",
                295: "this is the device's intensity: the rows and the result are moved, too",
                307: "the result is moved, too",
                346: "the rows are moved, too",
                360: "round up: 360 rows are not enough",
                924: "a multiply and an add are two FLOPs",
            },
            42: {924: "the peak in float32 is another one", 21: "a float32 takes 4 bytes"},
        }.get(expected, {})
        expect.value(got, expected, of="min_rows", optional=True, inputs=inputs, hints=hints)


def device(student, **changes):
    """A device of 1e12 FLOP/s in float32 and 4e12 in bfloat16, with 1e10 bytes/s."""
    given = {
        "name": "a GPU",
        "peak_flops": {torch.float32: 1e12, torch.bfloat16: 4e12},
        "memory_bandwidth": 1e10,
        "memory_bytes": 10**9,
    }
    return student.resource_accounting.Hardware(**{**given, **changes})


def test_intensities_by_hand(student):
    """Two devices may have one name: 1e12 / 1e10 = 100 FLOP per byte, and 1e12 / 2e10 = 50.

    (2 × 3) @ (3 × 5) in float32 has 60 FLOPs for 4 · (6 + 15 + 10) bytes. 3 FLOPs per element, with
    two tensors read and three written in float64, are 3 / 40 per byte.
    """
    ra, fp32 = student.resource_accounting, torch.float32
    for bandwidth, want in [(1e10, 100.0), (2e10, 50.0)]:
        inputs = f"1e12 FLOP/s, {bandwidth:g} bytes/s"
        got = ra.accelerator_intensity(device(student, memory_bandwidth=bandwidth), fp32)
        expect.number(got, want, of="accelerator_intensity", tolerance=1e-4, inputs=inputs)
    inputs = "2, 3, 5, float32"
    got = ra.matmul_intensity(2, 3, 5, fp32)
    expect.number(got, 60 / 124, of="matmul_intensity", tolerance=1e-6, inputs=inputs)
    side = 2**21  # of a square matrix; 2 · side³ is above what an int64 holds
    got, inputs = ra.matmul_intensity(side, side, side, fp32), "2**21, 2**21, 2**21, float32"
    expect.number(got, side / 6, of="matmul_intensity", tolerance=0.3, inputs=inputs)
    got, inputs = ra.elementwise_intensity(3, 2, 3, torch.float64), "3, 2, 3, float64"
    expect.number(got, 0.075, of="elementwise_intensity", tolerance=1e-7, inputs=inputs)


def test_every_function_takes_the_peak_of_the_dtype(student):
    """100 FLOPs per byte are the ridge of this device in float32, 400 in bfloat16.

    At 200 FLOPs per byte, work is compute-bound in float32, and reaches half of bfloat16's peak.
    """
    ra, hw, bf16 = student.resource_accounting, device(student), torch.bfloat16
    for dtype, bound, seconds, share, peak_share in [
        (torch.float32, True, 2.0, 1.0, 1.0),
        (bf16, False, 1.0, 0.5, 0.25),
    ]:
        inputs = f"2e12 FLOPs, 1e10 bytes, {dtype}; 1e12 FLOP/s in float32, 4e12 in bfloat16"
        got = ra.is_compute_bound(2e12, 1e10, hw, dtype)
        expect.value(got, bound, of="is_compute_bound", inputs=inputs)
        for of, got, want in [
            ("roofline_seconds", ra.roofline_seconds(2e12, 1e10, hw, dtype), seconds),
            ("attainable_mfu", ra.attainable_mfu(200.0, hw, dtype), share),
            ("mfu", ra.mfu(1e12, 1.0, hw, dtype), peak_share),
        ]:
            expect.number(got, want, of=of, tolerance=1e-6, inputs=inputs)


def test_every_function_refuses_a_dtype_without_a_peak(student):
    """No peak is guessed, in any of the functions: an error (KeyError or ValueError) is raised."""
    ra, hw, half = student.resource_accounting, device(student), torch.float16
    calls = {
        "accelerator_intensity": lambda dtype: ra.accelerator_intensity(hw, dtype),
        "roofline_seconds": lambda dtype: ra.roofline_seconds(1, 1, hw, dtype),
        "is_compute_bound": lambda dtype: ra.is_compute_bound(1, 1, hw, dtype),
        "mfu": lambda dtype: ra.mfu(1, 1, hw, dtype),
        "attainable_mfu": lambda dtype: ra.attainable_mfu(1, hw, dtype),
        "min_rows": lambda dtype: ra.min_rows(10, 10, hw, dtype),
    }
    for of, call in calls.items():
        with expect.right_call("a dtype with a peak"):
            call(torch.float32)
        with expect.raises((ValueError, KeyError), of=of, when="hw has no peak for dtype"):
            call(half)
