"""tensor_memory: bytes of tensors, of storages and of several tensors.

Accepted on purpose: any way to tell storages apart that is right (storage objects, their addresses), since only the sum is
compared. Every figure is an integer and compared exactly; the oracle is torch's own element sizes and storages.
"""

import torch

from tests import expect
from tests.probes import tensor_memory as probes

DTYPES = [
    torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.float8_e4m3fn, torch.float8_e5m2,
    torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool, torch.complex64, torch.complex128,
]  # fmt: skip


def random_shape(rng, dims):
    return tuple(torch.randint(2, 7, (dims,), generator=rng).tolist())


def test_tensor_bytes_of_every_dtype(student, rng):
    """An element takes the bytes of its dtype: 1 for bool and fp8, 2 for bf16, 16 for complex128."""
    for dims, dtype in enumerate(DTYPES):
        x = torch.zeros(random_shape(rng, dims % 4), dtype=dtype)
        got = student.tensor_memory.tensor_bytes(x)
        expect.value(got, x.numel() * x.element_size(), of="tensor_bytes", hint="does it ask the dtype for its size?")


def test_tensor_bytes_counts_what_a_view_shows(student, rng):
    """A view counts the elements that it shows: more than its storage holds when expanded, fewer when sliced."""
    rows, columns = random_shape(rng, 2)
    base = torch.zeros(rows, columns, 3)
    for view in (base[:, :1].expand(rows, 9, 3), base[1:, ::2], base.permute(2, 0, 1), base[0, 0, 0]):
        hint = "numel times the size of one element, not the size of the storage"
        expect.value(student.tensor_memory.tensor_bytes(view), view.numel() * 4, of="tensor_bytes", hint=hint)


def test_tensor_bytes_of_nothing(student):
    """A tensor without elements takes 0 bytes, whatever its other sizes are."""
    expect.value(student.tensor_memory.tensor_bytes(torch.zeros(3, 0, 5)), 0, of="tensor_bytes")


def test_tensor_bytes_of_a_tensor_without_data(student, rng):
    """A meta tensor has a shape and a dtype and so a size in bytes, exact also past 2**53."""
    x = torch.empty(2**29 + 1, 2**27 + 1, device="meta", dtype=torch.float64)
    expect.value(student.tensor_memory.tensor_bytes(x), (2**29 + 1) * (2**27 + 1) * 8, of="tensor_bytes")


def test_storage_bytes_is_the_whole_storage(student, rng):
    """The storage behind a view is counted whole, however little or however often the view shows it."""
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
        expect.value(student.tensor_memory.storage_bytes(view), base.numel() * 8, of="storage_bytes")


def test_storage_bytes_of_another_dtype(student, rng):
    """A view of the bytes as another dtype has the same storage."""
    base = torch.zeros(random_shape(rng, 1)[0], 8, dtype=torch.float32)
    for dtype in (torch.int8, torch.bfloat16, torch.float64):
        expect.value(student.tensor_memory.storage_bytes(base.view(dtype)), base.numel() * 4, of="storage_bytes")


def test_unique_bytes_counts_views_once(student, rng):
    """Views of one storage, whichever part they show, count that storage once and whole."""
    base, other = torch.zeros(*random_shape(rng, 2), 4), torch.zeros(random_shape(rng, 1))
    hint = "are two windows on one storage counted twice?"
    for group in ([base[0], base[-1], base.transpose(0, 1)], [base[1:]], [base.view(torch.int8), base]):
        expected = base.numel() * 4 + other.numel() * 4
        got = student.tensor_memory.unique_bytes([group[0], other, *group[1:]])
        expect.value(got, expected, of="unique_bytes", hint=hint)


def test_unique_bytes_of_tied_weights(student, rng):
    """A weight listed twice is counted once; an equal copy of it is another storage."""
    weight, bias = torch.rand(random_shape(rng, 2), generator=rng), torch.rand(random_shape(rng, 1), generator=rng)
    got = student.tensor_memory.unique_bytes([weight, bias, weight, weight.clone()])
    expect.value(got, 2 * weight.numel() * 4 + bias.numel() * 4, of="unique_bytes", hint="same storage, or equal values?")


def test_unique_bytes_of_an_expanded_tensor(student, rng):
    """An expanded tensor keeps in memory what its storage holds, not what it shows."""
    column = torch.zeros(random_shape(rng, 1)[0], 1)
    got = student.tensor_memory.unique_bytes([column.expand(-1, 100)])
    expect.value(got, column.numel() * 4, of="unique_bytes", hint="each whole storage once, so ask the storage")


def test_unique_bytes_of_any_iterable(student, rng):
    """A generator is gone through once; nothing at all, or only empty tensors, is 0 bytes."""
    a, b = torch.zeros(random_shape(rng, 2)), torch.zeros(random_shape(rng, 1), dtype=torch.float16)
    got = student.run(probes.unique_bytes_of_generator, tensors=[a, b, a.T])
    expect.value(got, a.numel() * 4 + b.numel() * 2, of="unique_bytes", hint="can its input be gone through twice?")
    expect.value(student.tensor_memory.unique_bytes([]), 0, of="unique_bytes")
    expect.value(student.tensor_memory.unique_bytes([torch.zeros(0), torch.zeros(2, 0)]), 0, of="unique_bytes")
