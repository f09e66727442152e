"""tensor_memory: bytes of tensors, of storages, and of several tensors together. Handout §1.1."""

import pytest
import torch

from kit import expect


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


def tensors():
    """Tensors of many kinds, each with a name."""
    x = torch.zeros(4, 6)
    return {
        "float32[4, 6]": x,
        "a column of it": x[:, 1],
        "its view as int32": x.view(torch.int32)[:2],
        "expanded to [5, 4, 6]": x.expand(5, 4, 6),
        "an empty slice of it": x[:0],
        "torch.empty(0, 3)": torch.empty(0, 3, dtype=torch.float64),
        "a scalar": torch.tensor(1, dtype=torch.int16),
        "complex64[3]": torch.zeros(3, dtype=torch.complex64),
        "int8[7] on meta": torch.zeros(7, dtype=torch.int8, device="meta"),
        "an uneven storage": torch.zeros(10)[1:9:3],
    }


@pytest.mark.parametrize("name", tensors())
def test_bytes_of_many_kinds_of_tensors(student, name):
    """torch gives both numbers: x.nbytes, and the size of x.untyped_storage()."""
    x = tensors()[name]
    expect.value(student.tensor_memory.tensor_bytes(x), x.nbytes, of="tensor_bytes", inputs=name)
    want = x.untyped_storage().nbytes()
    expect.value(student.tensor_memory.storage_bytes(x), want, of="storage_bytes", inputs=name)


def test_storage_bytes_of_views_without_a_base(student):
    """A tensor on the middle of a storage of 40 bytes, and a slice of it; four of 7 bytes."""
    middle = torch.empty(0).set_(torch.zeros(10).untyped_storage(), 4, (3,), (1,))
    seven = torch.zeros(7, dtype=torch.uint8)[:4].view(torch.int32)
    for x, want, inputs in [
        (middle, 40, "3 elements in the middle of a storage of 10"),
        (middle[1:], 40, "a slice of these"),
        (seven, 7, "4 of 7 bytes as one int32"),
    ]:
        got = student.tensor_memory.storage_bytes(x)
        expect.value(got, want, of="storage_bytes", inputs=inputs)
    got = student.tensor_memory.unique_bytes([torch.zeros(100)[:0]])
    inputs = "an empty slice of 400 bytes, which it keeps in memory"
    expect.value(got, 400, of="unique_bytes", inputs=inputs)


def test_unique_bytes_of_any_iterable(student):
    """A generator; equal values and equal sizes in storages of their own; parts of one storage."""
    a, b, c = torch.zeros(4, 8), torch.zeros(4, 8), torch.ones(100)
    listed = [a, b, c[:3], c[50:], c[:0], a.expand(9, 4, 8), c.view(torch.int32)[7:8]]
    for given, inputs in ((iter(listed), "a generator"), (tuple(listed), "a tuple")):
        got = student.tensor_memory.unique_bytes(given)
        inputs = f"{inputs} of a, b, c[:3], c[50:] and further views; a, b float32[4, 8], c [100]"
        expect.value(got, 128 + 128 + 400, of="unique_bytes", inputs=inputs)
    expect.value(student.tensor_memory.unique_bytes([]), 0, of="unique_bytes", inputs="nothing")
    inputs = "c[90:95], whose storage has 400 bytes"
    got = student.tensor_memory.unique_bytes([c[90:95]])
    expect.value(got, 400, of="unique_bytes", inputs=inputs)


def test_unique_bytes_tells_storages_apart_without_addresses(student):
    """All meta storages, and all empty ones, have address 0. Freed ones leave theirs to others.

    Two meta vectors of 3 float32 are 24 bytes. A generator makes vectors of 3, 3 and 5: 44 bytes.
    """
    a, b = (torch.zeros(3, device="meta") for _ in range(2))
    count = student.tensor_memory.unique_bytes
    hint = "two storages are told apart by themselves, not by an address"
    for given, want, inputs in [
        ([a, b], 24, "two meta tensors of 12 bytes"),
        ([a, a[1:], b], 24, "a meta tensor, a slice of it, and another one"),
        ([torch.zeros(0), torch.zeros(3)], 12, "an empty tensor, and one of 12 bytes"),
        ((torch.zeros(n) for n in (3, 3, 5)), 44, "a generator that makes its tensors"),
    ]:
        expect.value(count(given), want, of="unique_bytes", inputs=inputs, hint=hint)
    given = [a, b]
    count(given)
    expect.value(len(given), 2, of="unique_bytes", name="the length of the caller's list")
