"""tensor_memory: bytes of tensors, of storages, and of several tensors together. Handout §1.1."""

import pytest
import torch

from kit import expect

ELEMENTS = "this is the number of elements: how many bytes does each take?"
BITS = "these are bits: 8 of them make a byte"
FOUR = "not every element takes 4 bytes: what is the size of this dtype?"


def test_tensor_bytes_of_the_example(student):
    """A 4×8 float32 matrix takes 32 · 4 = 128 bytes, and half of that in bfloat16."""
    for dtype, expected, hints in [
        (torch.float32, 128, {32: ELEMENTS, 1024: BITS, 16: "is it the product of all sizes?"}),
        (torch.bfloat16, 64, {128: FOUR, 32: ELEMENTS, 512: BITS}),
        (torch.float64, 256, {128: FOUR, 32: ELEMENTS}),
        (torch.bool, 32, {128: FOUR, 4: "a bool takes a byte, not a bit"}),
    ]:
        inputs = f"x {expect.dtype_name(dtype)}[4, 8]"
        got = student.tensor_memory.tensor_bytes(torch.zeros(4, 8, dtype=dtype))
        expect.value(got, expected, of="tensor_bytes", inputs=inputs, hints=hints)


def test_storage_bytes_of_a_row(student):
    """One row of a 5×8 float32 matrix keeps the whole matrix in memory: 160 bytes."""
    got = student.tensor_memory.storage_bytes(torch.zeros(5, 8)[1])
    hints = {
        32: "these are the bytes of the row alone: what does x.untyped_storage() have?",
        40: "these are the elements of the storage: how many bytes do they take?",
        8: "these are the elements of the row: what does x.untyped_storage() have?",
        128: "the storage begins before the row",
        64: "the storage goes on after the row",
    }
    expect.value(got, 160, of="storage_bytes", inputs="x row 1 of float32[5, 8]", hints=hints)


def test_unique_bytes_counts_a_storage_once(student):
    """A matrix, its transpose and one of its rows share one storage.

    A second matrix has its own storage.
    """
    a, b = torch.zeros(4, 8), torch.zeros(2, 3)
    every = "a, a.T and a[2] are three tensors, but one storage"
    address = "a and a[2] begin at different addresses, but share a storage"
    elements = "these are elements: how many bytes do the storages have?"
    hints = {384: every, 288: every, 256: address, 160: address, 32: elements}
    got = student.tensor_memory.unique_bytes([a, a.T, a[2]])
    expect.value(got, 128, of="unique_bytes", inputs="a, a.T, a[2]", hints=hints)
    earlier = "does an earlier call leave something behind?"
    hints = {280: "a comes twice, but has one storage", 24: earlier, 38: elements}
    got = student.tensor_memory.unique_bytes([a, b, a])
    expect.value(got, 128 + 24, of="unique_bytes", inputs="a, b, a", hints=hints)


def tensors():
    """Tensors of many kinds, each with a name."""
    x = torch.zeros(4, 6)
    return {
        "float32[4, 6]": x,
        "a column of it": x[:, 1],
        "its view as int32": x.view(torch.int32)[:2],
        "expanded to [5, 4, 6]": x.expand(5, 4, 6),
        "rows of it, detached": x[1:].detach()[1:],
        "a scalar": torch.tensor(1, dtype=torch.int16),
        "complex64[3]": torch.zeros(3, dtype=torch.complex64),
        "int8[7] on meta": torch.zeros(7, dtype=torch.int8, device="meta"),
        "every third of 10 elements": torch.zeros(10)[1:9:3],
    }


@pytest.mark.parametrize("name", tensors())
def test_bytes_of_many_kinds_of_tensors(student, name):
    """torch gives both numbers: x.nbytes, and the size of x.untyped_storage()."""
    x = tensors()[name]
    got, more = student.tensor_memory.tensor_bytes(x), {"inputs": name}
    expect.value(got, x.nbytes, of="tensor_bytes", hints={x.numel(): ELEMENTS}, **more)
    got, want = student.tensor_memory.storage_bytes(x), x.untyped_storage().nbytes()
    expect.value(got, want, of="storage_bytes", hints={want // x.itemsize: ELEMENTS}, **more)


def test_unique_bytes_of_any_iterable(student):
    """A generator; equal values and equal sizes in storages of their own; parts of one storage."""
    a, b, c = torch.zeros(4, 8), torch.zeros(4, 8), torch.ones(100)
    listed = [a, b, c[:3], c[50:], a.expand(9, 4, 8), c.view(torch.int32)[7:8]]
    count = student.tensor_memory.unique_bytes
    for given, inputs in ((iter(listed), "a generator"), (tuple(listed), "a tuple")):
        got = count(given)
        hints = {0: "a generator is empty after the first loop"} if "generator" in inputs else {}
        hints[528] = "a and b are equal, but each has a storage of its own"
        inputs = f"{inputs} of a, b, c[:3], c[50:] and further views; a, b float32[4, 8], c [100]"
        expect.value(got, 128 + 128 + 400, of="unique_bytes", inputs=inputs, hints=hints)
    inputs = "c[90:95], whose storage has 400 bytes"
    got = student.tensor_memory.unique_bytes([c[90:95]])
    expect.value(got, 400, of="unique_bytes", inputs=inputs)


def test_unique_bytes_tells_meta_tensors_apart(student):
    """All meta storages have address 0. Two meta vectors of 3 float32 are 24 bytes."""
    a, b = (torch.zeros(3, device="meta") for _ in range(2))
    count = student.tensor_memory.unique_bytes
    for given, inputs in [([a, b], "two meta tensors"), ([a, a[1:], b], "and a slice of one")]:
        hints = {12: "compare the storages themselves: on meta, each address is 0"}
        got = count(given)
        expect.value(got, 24, of="unique_bytes", inputs=inputs, hints=hints)
