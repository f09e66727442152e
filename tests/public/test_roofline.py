"""roofline: how fast a device can be, and what limits it. Handout §5.1."""

import torch

from kit import expect


def test_intensities_of_the_examples(student):
    """In bfloat16 an H100 computes 295.4 FLOPs per byte that its memory delivers.

    A product of n = 1024 has 341.3 FLOPs per byte, and ReLU has 0.25.
    """
    ra = student.resource_accounting
    got = ra.accelerator_intensity(ra.H100_SXM, torch.bfloat16)
    expect.number(
        got, 295.4, of="accelerator_intensity", tolerance=0.05, inputs="H100_SXM, bfloat16"
    )
    got = ra.matmul_intensity(1024, 1024, 1024, torch.bfloat16)
    expect.number(
        got, 341.3, of="matmul_intensity", tolerance=0.05, inputs="1024, 1024, 1024, bfloat16"
    )
    got = ra.elementwise_intensity(1, 1, 1, torch.bfloat16)
    expect.number(
        got,
        0.25,
        of="elementwise_intensity",
        tolerance=0.0,
        inputs="1 FLOP, 1 read, 1 written, bfloat16",
    )


def test_roofline_seconds_of_the_example(student):
    """Computation and traffic overlap on an H100, so the longer of the two decides.

    1 s of computation with 2 s of traffic takes 2 s; with 0.5 s of traffic it takes 1 s.
    """
    ra = student.resource_accounting
    for bytes_moved, expected in [(6.7e12, 2.0), (1.675e12, 1.0)]:
        got = ra.roofline_seconds(989.5e12, bytes_moved, ra.H100_SXM, torch.bfloat16)
        inputs = f"989.5e12 FLOPs, {bytes_moved:g} bytes, H100_SXM, bfloat16"
        expect.number(
            got,
            expected,
            of="roofline_seconds",
            tolerance=1e-12,
            inputs=inputs,
            hint="computation and traffic overlap",
        )


def test_square_matmul_is_compute_bound_from_887(student):
    """Products of square bfloat16 matrices are compute-bound on an H100 from n = 887.

    At n = 886 the product still waits for memory.
    """
    ra = student.resource_accounting
    for n, expected in [(886, False), (887, True)]:
        got = ra.is_compute_bound(2 * n**3, 3 * n**2 * 2, ra.H100_SXM, torch.bfloat16)
        expect.value(got, expected, of="is_compute_bound", inputs=f"n = {n}, H100_SXM, bfloat16")


def test_mfu_of_the_example(student):
    """3.958e15 FLOPs in one second are half of what 8 H100 can compute.

    They are 4 times what one H100 can compute: 4.0, not clamped.
    """
    ra = student.resource_accounting
    for num_devices, expected in [(8, 0.5), (1, 4.0)]:
        got = ra.mfu(3.958e15, 1.0, ra.H100_SXM, torch.bfloat16, num_devices)
        inputs = f"3.958e15 FLOPs, 1 s, H100_SXM, bfloat16, {num_devices} devices"
        expect.number(got, expected, of="mfu", tolerance=1e-12, inputs=inputs)


def test_attainable_mfu_of_the_example(student):
    """1 FLOP per byte reaches 1 / 295.4 of the peak of an H100 in bfloat16.

    341.3 FLOPs per byte can reach all of it.
    """
    ra = student.resource_accounting
    for intensity, expected in [(1.0, 0.003386), (341.3, 1.0)]:
        got = ra.attainable_mfu(intensity, ra.H100_SXM, torch.bfloat16)
        inputs = f"{intensity} FLOP per byte, H100_SXM, bfloat16"
        expect.number(got, expected, of="attainable_mfu", tolerance=1e-6, inputs=inputs)


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
        got = ra.min_rows(k, n, ra.H100_SXM, dtype)
        expect.value(got, expected, of="min_rows", inputs=f"{k}, {n}, H100_SXM, {dtype}")


def test_min_rows_is_where_is_compute_bound_turns(student):
    """One row fewer is memory-bound."""
    ra, bf16 = student.resource_accounting, torch.bfloat16
    for k, n, hw in [(4096, 4096, ra.H100_SXM), (1000, 30_000, ra.A100_80GB)]:
        rows = ra.min_rows(k, n, hw, bf16)
        expect.kind(rows, int, of="min_rows")
        for m, expected in [(rows, True), (rows - 1, False)]:
            got = ra.is_compute_bound(2 * m * k * n, 2 * (m * k + k * n + m * n), hw, bf16)
            inputs = f"min_rows({k}, {n}, {hw.name}, bfloat16) is {rows}; at {m} rows"
            expect.value(got, expected, of="min_rows", inputs=inputs)


def test_a_dtype_without_a_peak_is_refused(student):
    """An A100 has no peak for float8: asking for it is an error (KeyError or ValueError)."""
    ra = student.resource_accounting
    with expect.right_call("an A100 in bfloat16"):
        ra.accelerator_intensity(ra.A100_80GB, torch.bfloat16)
    with expect.raises(
        (ValueError, KeyError), of="accelerator_intensity", when="hw has no peak for dtype"
    ):
        ra.accelerator_intensity(ra.A100_80GB, torch.float8_e4m3fn)
