"""tensor_memory: bytes of tensors, of storages and of several tensors.

Accepted on purpose: any right way to tell storages apart (storage objects, their addresses),
because only the sum is compared; a float with the right value, except in the one test that asks for
an int. The oracle is torch's own element sizes and storages. Each test uses several sizes, so that
no constant is a right answer.
"""

import pytest
import torch

from tests import expect
from tests.probes import tensor_memory as probes

DTYPES = [
    torch.float64, torch.float32, torch.float16, torch.bfloat16,
    torch.float8_e4m3fn, torch.float8_e5m2,
    torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool,
    torch.complex64, torch.complex128,
]  # fmt: skip


def random_shape(rng, dims):
    return tuple(torch.randint(2, 7, (dims,), generator=rng).tolist())


def check_bytes(got, expected, *, of, hint=None):
    """Check a number of bytes, as an int or a float."""
    expect.kind(got, (int, float), of=of, hint=hint)
    expect.number(got, expected, of=of, tolerance=0, hint=hint)


@pytest.mark.core
@pytest.mark.points(2)
def test_tensor_bytes_of_every_dtype(student, rng):
    """The dtype gives an element's size: 1 byte for bool and fp8, 2 for bf16, 16 for complex128."""
    for dims, dtype in enumerate(DTYPES):
        x = torch.zeros(random_shape(rng, dims % 4), dtype=dtype)
        got = student.tensor_memory.tensor_bytes(x)
        check_bytes(
            got,
            x.numel() * x.element_size(),
            of="tensor_bytes",
            hint="does the code ask the dtype for its size?",
        )


def test_tensor_bytes_counts_what_a_view_shows(student, rng):
    """A view counts the elements that it shows, even if its storage contains more or fewer."""
    rows, columns = random_shape(rng, 2)
    base = torch.zeros(rows, columns, 3)
    for view in (
        base[:, :1].expand(rows, 9, 3),
        base[1:, ::2],
        base.permute(2, 0, 1),
        base[0, 0, 0],
    ):
        hint = "numel times the size of one element, not the size of the storage"
        check_bytes(
            student.tensor_memory.tensor_bytes(view), view.numel() * 4, of="tensor_bytes", hint=hint
        )


def test_tensor_bytes_needs_no_data(student, rng):
    """Shape and dtype determine the size, also of meta tensors; empty tensors take 0 bytes."""
    rows = random_shape(rng, 1)[0] * 10_000
    weight = torch.empty(rows, 4096, device="meta")
    hint = "numel and the size of an element are known without reading any data"
    check_bytes(
        student.tensor_memory.tensor_bytes(weight), rows * 4096 * 4, of="tensor_bytes", hint=hint
    )
    check_bytes(
        student.tensor_memory.tensor_bytes(torch.zeros(3, 0, 5)), 0, of="tensor_bytes", hint=hint
    )


@pytest.mark.core
@pytest.mark.points(2)
def test_storage_bytes_is_the_whole_storage(student, rng):
    """The whole storage of a view is counted, however much of it the view shows."""
    rows, columns = random_shape(rng, 2)
    base = torch.zeros(rows, columns, 5, dtype=torch.float64)
    views = [
        base,
        base[1:, :, 2],
        base[-1, -1, -1],
        base[:, :1, :1].expand(rows, 40, 50),
        base.transpose(0, 2),
        base[:0],
        base[1:].detach(),
    ]
    for view in views:
        check_bytes(student.tensor_memory.storage_bytes(view), base.numel() * 8, of="storage_bytes")
    check_bytes(
        student.tensor_memory.storage_bytes(torch.zeros(rows, 7)), rows * 7 * 4, of="storage_bytes"
    )


def test_storage_bytes_of_another_dtype(student, rng):
    """A view with another dtype has the same storage, so it has the same number of bytes."""
    for columns, dtype in [(8, torch.int8), (16, torch.bfloat16), (24, torch.float64)]:
        base = torch.zeros(random_shape(rng, 1)[0], columns, dtype=torch.float32)
        check_bytes(
            student.tensor_memory.storage_bytes(base.view(dtype)),
            base.numel() * 4,
            of="storage_bytes",
        )


@pytest.mark.core
@pytest.mark.points(2)
def test_unique_bytes_counts_views_once(student, rng):
    """Several views of one storage count that whole storage once."""
    hint = "are two views of one storage counted twice? Is the whole storage counted?"
    for columns in (4, 12):
        base, other = torch.zeros(*random_shape(rng, 2), columns), torch.zeros(random_shape(rng, 1))
        for group in (
            [base[0], base[-1], base.transpose(0, 1)],
            [base[1:]],
            [base.view(torch.int8), base],
        ):
            expected = base.numel() * 4 + other.numel() * 4
            got = student.tensor_memory.unique_bytes([group[0], other, *group[1:]])
            check_bytes(got, expected, of="unique_bytes", hint=hint)


@pytest.mark.core
def test_unique_bytes_of_tied_weights(student, rng):
    """A weight listed twice counts once; an equal copy has a storage of its own and counts too."""
    hint = "which tensors share a storage, and which only have equal values or sizes?"
    for rows in (8, 24):
        weight, bias = (
            torch.rand(rows, *random_shape(rng, 1), generator=rng),
            torch.rand(rows, generator=rng),
        )
        got = student.tensor_memory.unique_bytes([weight, bias, weight, weight.clone()])
        check_bytes(got, 2 * weight.numel() * 4 + bias.numel() * 4, of="unique_bytes", hint=hint)


def test_unique_bytes_of_an_expanded_tensor(student, rng):
    """An expanded tensor takes the bytes of its storage, not of the elements that it shows."""
    for columns in (100, 300):
        column = torch.zeros(random_shape(rng, 1)[0] + columns, 1)
        got = student.tensor_memory.unique_bytes([column.expand(-1, columns)])
        check_bytes(
            got,
            column.numel() * 4,
            of="unique_bytes",
            hint="count each whole storage once, so ask the storage for its size",
        )


def test_unique_bytes_of_any_iterable(student, rng):
    """unique_bytes takes any iterable, such as a generator; without any elements it returns 0."""
    a, b = torch.zeros(random_shape(rng, 2)), torch.zeros(9, dtype=torch.float16)
    got = student.run(probes.unique_bytes_of_generator, tensors=[a, b])
    hint = "does the code read its input twice, or ask for its length?"
    check_bytes(got, a.numel() * 4 + b.numel() * 2, of="unique_bytes", hint=hint)
    check_bytes(student.tensor_memory.unique_bytes([]), 0, of="unique_bytes")
    check_bytes(
        student.tensor_memory.unique_bytes([torch.zeros(0), torch.zeros(2, 0)]),
        0,
        of="unique_bytes",
    )


def test_bytes_are_an_int(student, rng):
    """Each of the three functions returns its number of bytes as an int."""
    hint = "a number of bytes is an int: use // instead of /"
    for rows in random_shape(rng, 2):
        x, y, byte = (
            torch.zeros(rows, 5),
            torch.zeros(rows),
            torch.zeros(rows, dtype=torch.float8_e5m2),
        )
        expect.value(student.tensor_memory.tensor_bytes(x), rows * 20, of="tensor_bytes", hint=hint)
        expect.value(student.tensor_memory.storage_bytes(byte), rows, of="storage_bytes", hint=hint)
        expect.value(
            student.tensor_memory.unique_bytes([x, y]), rows * 24, of="unique_bytes", hint=hint
        )
