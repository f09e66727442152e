"""tensor_memory: bytes of tensors, of storages, and of several tensors together. Handout §1.1."""

import torch

from tests import expect


def test_tensor_bytes_of_the_example(student):
    """A 4×8 float32 matrix takes 32 · 4 = 128 bytes, and half of that in bfloat16."""
    for dtype, expected in [
        (torch.float32, 128),
        (torch.bfloat16, 64),
        (torch.float64, 256),
        (torch.bool, 32),
    ]:
        got = student.tensor_memory.tensor_bytes(torch.zeros(4, 8, dtype=dtype))
        expect.value(got, expected, of="tensor_bytes", inputs=f"x {expect.dtype_name(dtype)}[4, 8]")


def test_storage_bytes_of_a_row(student):
    """One row of a 4×8 float32 matrix keeps the whole matrix in memory: 128 bytes."""
    row = torch.zeros(4, 8)[2]
    expect.value(
        student.tensor_memory.storage_bytes(row),
        128,
        of="storage_bytes",
        inputs="x row 2 of float32[4, 8]",
    )


def test_unique_bytes_counts_a_storage_once(student):
    """A matrix, its transpose and one of its rows share one storage.

    A second matrix has its own storage.
    """
    a, b = torch.zeros(4, 8), torch.zeros(2, 3)
    expect.value(
        student.tensor_memory.unique_bytes([a, a.T, a[2]]),
        128,
        of="unique_bytes",
        inputs="a, a.T, a[2]",
    )
    expect.value(
        student.tensor_memory.unique_bytes([a, b, a]), 128 + 24, of="unique_bytes", inputs="a, b, a"
    )
