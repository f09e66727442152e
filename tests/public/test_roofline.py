"""roofline: how fast a device can be, and what keeps it from being that fast. Handout §5.1."""

import torch

from tests import expect


def test_intensities_of_the_examples(student):
    """An H100 wants 295.4 FLOPs for each byte in bfloat16; a product of n = 1024 has 341.3, ReLU has 0.25."""
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
    """On an H100 1 s of compute under 2 s of traffic takes 2 s, and under half a second of traffic it takes 1 s."""
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
            hint="the two overlap",
        )


def test_square_matmul_is_compute_bound_from_887(student):
    """On an H100 a product of square bfloat16 matrices waits for memory at n = 886 and for compute at n = 887."""
    ra = student.resource_accounting
    for n, expected in [(886, False), (887, True)]:
        got = ra.is_compute_bound(2 * n**3, 3 * n**2 * 2, ra.H100_SXM, torch.bfloat16)
        expect.value(got, expected, of="is_compute_bound", inputs=f"n = {n}, H100_SXM, bfloat16")


def test_mfu_of_the_example(student):
    """3.958e15 FLOPs in a second are half of what 8 H100 could do, and 4 times what one could: 4.0, not clamped."""
    ra = student.resource_accounting
    for num_devices, expected in [(8, 0.5), (1, 4.0)]:
        got = ra.mfu(3.958e15, 1.0, ra.H100_SXM, torch.bfloat16, num_devices)
        inputs = f"3.958e15 FLOPs, 1 s, H100_SXM, bfloat16, {num_devices} devices"
        expect.number(got, expected, of="mfu", tolerance=1e-12, inputs=inputs)


def test_attainable_mfu_of_the_example(student):
    """On an H100 in bfloat16 1 FLOP per byte reaches 1 / 295.4 of the peak, and 341.3 all of it."""
    ra = student.resource_accounting
    for intensity, expected in [(1.0, 0.003386), (341.3, 1.0)]:
        got = ra.attainable_mfu(intensity, ra.H100_SXM, torch.bfloat16)
        inputs = f"{intensity} FLOP per byte, H100_SXM, bfloat16"
        expect.number(got, expected, of="attainable_mfu", tolerance=1e-6, inputs=inputs)


def test_a_dtype_without_a_peak_is_refused(student):
    """An A100 has no peak for float8: asking for it is an error (KeyError or ValueError)."""
    ra = student.resource_accounting
    with expect.right_call("an A100 in bfloat16"):
        ra.accelerator_intensity(ra.A100_80GB, torch.bfloat16)
    with expect.raises(
        (ValueError, KeyError), of="accelerator_intensity", when="the device has no peak for it"
    ):
        ra.accelerator_intensity(ra.A100_80GB, torch.float8_e4m3fn)
