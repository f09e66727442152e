"""tensor_memory: bytes of tensors, of storages and of several tensors.

The oracle is torch's own element sizes and storages. Each test uses several sizes, so that no
constant is a right answer. A number of bytes may be a float, except in the one test that asks for
an int.
"""

import math

import pytest
import torch

from kit import expect
from tests.probes import tensor_memory as probes

DTYPES = [
    torch.float64, torch.float32, torch.float16, torch.bfloat16,
    torch.float8_e4m3fn, torch.int64, torch.int32, torch.int16, torch.uint8, torch.bool,
    torch.complex64,
]  # fmt: skip


def random_shape(rng, dims):
    return tuple(torch.randint(2, 7, (dims,), generator=rng).tolist())


def check_bytes(got, expected, *, of, hint=None):
    expect.kind(got, (int, float), of=of, hint=hint)
    expect.number(got, expected, of=of, tolerance=0, hint=hint)


@pytest.mark.harm("wrong number")
def test_tensor_bytes_of_every_dtype(student, rng):
    """The dtype gives an element's size: 1 byte for bool and fp8, 2 for bf16, 8 for complex64."""
    hint = "does the code ask the dtype for its size?"
    for i, dtype in enumerate(DTYPES):
        x = torch.zeros(random_shape(rng, i % 4), dtype=dtype)
        got = student.tensor_memory.tensor_bytes(x)
        check_bytes(got, x.numel() * x.element_size(), of="tensor_bytes", hint=hint)


# Stays: what other tests catch by one expanded element, this one names for views of every kind.
@pytest.mark.harm("wrong number")
def test_tensor_bytes_counts_what_a_view_shows(student, rng):
    """A view counts the elements that it shows, even if its storage contains more or fewer."""
    rows, columns = random_shape(rng, 2)
    base = torch.zeros(rows, columns, 3)
    hint = "numel times the size of one element, not the size of the storage"
    expanded = base[:, :1].expand(rows, 9, 3), base[:1, :1, :1].expand(rows, 8, 7)
    for view in (*expanded, base[1:, ::2], base.permute(2, 0, 1), base[0, 0, 0]):
        got = student.tensor_memory.tensor_bytes(view)
        check_bytes(got, view.numel() * 4, of="tensor_bytes", hint=hint)


@pytest.mark.harm("wrong number")
def test_storage_bytes_is_the_whole_storage(student, rng):
    """The whole storage of a view is counted, however much of it the view shows, in any dtype."""
    rows, columns = random_shape(rng, 2)
    base = torch.zeros(rows, columns, 5, dtype=torch.float64)
    views = [base, base[1:, :, 2], base[-1, -1, -1], base[:, :1, :1].expand(rows, 40, 50)]
    views += [base.transpose(0, 2), base[1:].detach()[1:], base.view(torch.int16)[0]]
    for view in views:
        check_bytes(student.tensor_memory.storage_bytes(view), base.numel() * 8, of="storage_bytes")
    for dtype in DTYPES:
        x = torch.zeros(random_shape(rng, 2), dtype=dtype)
        got = student.tensor_memory.storage_bytes(x[1])
        check_bytes(got, x.numel() * x.element_size(), of="storage_bytes")


@pytest.mark.harm("wrong number")
def test_unique_bytes_counts_views_once(student, rng):
    """A tied weight, or several views of one storage, count that whole storage once."""
    hint = "are two views of one storage counted twice? Is the whole storage counted?"
    base, other = torch.zeros(*random_shape(rng, 2), 4), torch.zeros(random_shape(rng, 1))
    expected = base.numel() * 4 + other.numel() * 4
    groups = [[base[0], base[-1], base.transpose(0, 1)], [base, base], [base[1:]]]
    for group in [*groups, [base.view(torch.int8), base], [base[:1].expand(9, -1, -1)]]:
        got = student.tensor_memory.unique_bytes([group[0], other, *group[1:]])
        check_bytes(got, expected, of="unique_bytes", hint=hint)


# Stays: equal values are another mistake than equal addresses.
@pytest.mark.harm("wrong number")
def test_unique_bytes_of_equal_copies(student, rng):
    """An equal copy, or another tensor of the same size, has a storage of its own and counts."""
    hint = "which tensors share a storage, and which only have equal values or sizes?"
    weight, bias = torch.rand(random_shape(rng, 2), generator=rng), torch.zeros(3)
    given = [weight, bias, weight.clone(), torch.zeros_like(weight)]
    got = student.tensor_memory.unique_bytes(given)
    check_bytes(got, 3 * weight.nbytes + bias.nbytes, of="unique_bytes", hint=hint)


@pytest.mark.harm("rare")
def test_bytes_of_meta_parameters(student, rng):
    """Parameters on the meta device count like all others."""
    shape, third = random_shape(rng, 2), random_shape(rng, 1)
    shapes = [shape, shape, third]
    sizes = [4 * math.prod(one) for one in shapes]
    got = student.run(probes.bytes_of_parameters, shapes=shapes, device="meta")
    hint = "two storages on the meta device have the same address, 0"
    for tensor, storage, size in zip(got["tensors"], got["storages"], sizes, strict=True):
        check_bytes(tensor, size, of="tensor_bytes", hint=hint)
        check_bytes(storage, size, of="storage_bytes", hint=hint)
    check_bytes(got["together"], sum(sizes), of="unique_bytes", hint=hint)


@pytest.mark.harm("wrong number")
def test_unique_bytes_of_any_iterable(student, rng):
    """unique_bytes takes a list, a tuple or a generator."""
    tensors = [torch.zeros(random_shape(rng, 2), dtype=dtype) for dtype in DTYPES]
    expected = sum(x.nbytes for x in tensors)
    hint = "does the code read its input twice, or ask for its length?"
    got = student.run(probes.unique_bytes_of_a_generator, tensors=tensors)
    check_bytes(got, expected, of="unique_bytes", hint=hint)
    for given in (tensors, tuple(tensors), tensors[:1]):
        got = student.tensor_memory.unique_bytes(given)
        check_bytes(got, sum(x.nbytes for x in given), of="unique_bytes", hint=hint)


@pytest.mark.harm("crash")
def test_bytes_are_an_int(student, rng):
    """Each of the three functions returns its number of bytes as an int."""
    hint = "a number of bytes is an int: use // instead of /"
    for rows in random_shape(rng, 2):
        x = torch.zeros(rows, 5)
        for of, argument in [("tensor_bytes", x), ("storage_bytes", x), ("unique_bytes", [x])]:
            got = getattr(student.tensor_memory, of)(argument)
            expect.kind(got, int, of=of, hint=hint)
            expect.value(got, rows * 20, of=of)
