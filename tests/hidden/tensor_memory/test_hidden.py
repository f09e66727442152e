"""tensor_memory: bytes of tensors, of storages and of several tensors.

The oracle is torch's own element sizes and storages. Each test uses several sizes, so that no
constant is a right answer. A number of bytes may be a float, except in the one test that asks for
an int.
"""

import math

import pytest
import torch

from kit import expect
from kit.student import call_and_keep_inputs
from tests.probes import tensor_memory as probes

DTYPES = [
    torch.float64, torch.float32, torch.float16, torch.bfloat16,
    torch.float8_e4m3fn, torch.float8_e5m2,
    torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool,
    torch.complex64, torch.complex128,
]  # fmt: skip
VALUES = (0.0, math.inf, 1e-6, 2e4, 1.0)


def same_tensor(a, b):
    """Whether two tensors look alike."""
    return isinstance(a, torch.Tensor) and (a.shape, a.dtype) == (b.shape, b.dtype)


def random_shape(rng, dims):
    return tuple(torch.randint(2, 7, (dims,), generator=rng).tolist())


def of_each_dtype(rng):
    """A tensor of each dtype with 0 to 3 dimensions, some of size 1, filled with one value."""
    for i, dtype in enumerate(DTYPES):
        shape = random_shape(rng, i % 4)
        shape = (1, *shape[1:]) if i % 3 == 1 and shape else shape
        yield torch.full(shape, VALUES[i % len(VALUES)]).to(dtype)


def check_bytes(got, expected, *, of, hint=None):
    """Check a number of bytes, as an int or a float."""
    expect.kind(got, (int, float), of=of, hint=hint)
    expect.number(got, expected, of=of, tolerance=0, hint=hint)


@pytest.mark.core
@pytest.mark.points(2)
def test_tensor_bytes_of_every_dtype(student, rng):
    """The dtype gives an element's size: 1 byte for bool and fp8, 2 for bf16, 16 for complex128."""
    for x in of_each_dtype(rng):
        got = student.tensor_memory.tensor_bytes(x)
        check_bytes(
            got,
            x.numel() * x.element_size(),
            of="tensor_bytes",
            hint="does the code ask the dtype for its size?",
        )


# Stays: what other tests catch by one expanded element, this one names for views of every kind.
def test_tensor_bytes_counts_what_a_view_shows(student, rng):
    """A view counts the elements that it shows, even if its storage contains more or fewer."""
    rows, columns = random_shape(rng, 2)
    base, whole = torch.zeros(rows, columns, 3), torch.zeros(rows, 1, 2, dtype=torch.int32)
    for view in (
        base[:, :1].expand(rows, 9, 3),
        whole.expand(rows, 5, 2),
        base[1:, ::2],
        base.permute(2, 0, 1),
        base[0, 0, 0],
        base[:1, 0, 0],  # contiguous, whatever its stride
        base[1:, :1].transpose(0, 1),
        base[:1].expand(1, columns, 3)[:, :, 1:2],
    ):
        hint = "numel times the size of one element, not the size of the storage"
        check_bytes(
            student.tensor_memory.tensor_bytes(view), view.numel() * 4, of="tensor_bytes", hint=hint
        )


def test_tensor_bytes_needs_no_data(student, rng):
    """Shape and dtype determine the size, also of meta tensors; empty tensors take 0 bytes.

    An expanded tensor may show more than memory holds.
    """
    rows = random_shape(rng, 1)[0] * 1_000_000  # more bytes than an int32 can count
    weight = torch.empty(rows, 4096, device="meta")
    hint = "numel and the size of an element are known without reading any data"
    check_bytes(
        student.tensor_memory.tensor_bytes(weight), rows * 4096 * 4, of="tensor_bytes", hint=hint
    )
    got = student.run(probes.bytes_of_one_repeated, count=2**50)
    reason = "an error for a tensor that shows more than memory holds"
    expect.that(not isinstance(got, str), reason, of="tensor_bytes", hint=hint)
    check_bytes(got, 2**52, of="tensor_bytes", hint=hint)
    for shape in [(3, 0, 5), (0,)]:
        got = student.tensor_memory.tensor_bytes(torch.zeros(shape))
        check_bytes(got, 0, of="tensor_bytes", hint=hint)


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
    for x in of_each_dtype(rng):
        got = student.tensor_memory.storage_bytes(torch.stack([x, x])[1])
        check_bytes(got, 2 * x.numel() * x.element_size(), of="storage_bytes")


def test_storage_bytes_of_another_dtype(student, rng):
    """A view with another dtype has the same storage, so it has the same number of bytes."""
    for columns, dtype in [(8, torch.int8), (16, torch.bfloat16), (24, torch.float64)]:
        base = torch.zeros(random_shape(rng, 1)[0], columns, dtype=torch.float32)
        got = student.tensor_memory.storage_bytes(base.view(dtype))
        check_bytes(got, base.numel() * 4, of="storage_bytes")
    # The storage need not be a whole number of elements.
    for first, size, dtype in [
        (0, 7, torch.int32),
        (8, 19, torch.float64),
        (8, 17, torch.complex64),
    ]:
        last = first + dtype.itemsize
        view = torch.zeros(size, dtype=torch.uint8)[first:last].view(dtype)
        check_bytes(student.tensor_memory.storage_bytes(view), size, of="storage_bytes")
        check_bytes(student.tensor_memory.unique_bytes([view]), size, of="unique_bytes")


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
            [base[:0]],
            [base[:0], base],
        ):
            expected = base.numel() * 4 + other.numel() * 4
            got = student.tensor_memory.unique_bytes([group[0], other, *group[1:]])
            check_bytes(got, expected, of="unique_bytes", hint=hint)
        got = student.run(probes.bytes_of, tensors=[base[:0]], how="on meta")["together"]
        check_bytes(got[0], base.numel() * 4, of="unique_bytes", hint=hint)


# Stays: this is the plain case. A failure of the test of parameters and meta tensors alone is about
# those.
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
    tensors = [*of_each_dtype(rng), torch.zeros(random_shape(rng, 2)), torch.zeros(2, 0)]
    expected = sum(x.nbytes for x in tensors)
    hint = "does the code read its input twice, ask for its length, or forget a storage too soon?"
    results = student.run(probes.unique_bytes_of_generators, tensors=tensors)
    expect.parts(results, 3, of="unique_bytes")
    for got in results:
        check_bytes(got, expected, of="unique_bytes", hint=hint)
    for given in (tensors, tuple(tensors)):
        check_bytes(student.tensor_memory.unique_bytes(given), expected, of="unique_bytes")
    listed = [*tensors, tensors[0]]
    asked = {"module": "tensor_memory", "function": "unique_bytes", "args": (listed,)}
    (after,) = student.run(call_and_keep_inputs, **asked)["inputs"]
    same = len(after) == len(listed) and all(map(same_tensor, after, listed))
    expect.that(same, "the list holds other tensors after the call", of="unique_bytes")
    for nothing in ([], [torch.zeros(0), torch.zeros(2, 0)]):
        check_bytes(student.tensor_memory.unique_bytes(nothing), 0, of="unique_bytes")


def test_bytes_of_parameters_and_meta_tensors(student, rng):
    """Parameters, slices, conjugates and meta tensors count like all others, in every call.

    So does a storage that has grown between two calls.
    """
    hint = "two storages on the meta device have the same address, 0; do calls share anything?"
    for how in ("as parameters", "as slices", "on meta", "as conjugates", "without gradients"):
        dtype = torch.complex64 if how == "as conjugates" else torch.float32
        weight = torch.rand(random_shape(rng, 2), dtype=dtype, generator=rng)
        bias = torch.rand(3, dtype=dtype, generator=rng)
        tensors = [weight, weight[1:], weight.T[1:], weight.clone(), bias, weight[:0]]
        got = student.run(probes.bytes_of, tensors=tensors, how=how)
        for one, x in zip(got["tensors"], tensors, strict=True):
            x = x[:1] if how == "as slices" else x
            check_bytes(one, x.nbytes, of="tensor_bytes", hint=hint)
        for one, x in zip(got["storages"], tensors, strict=True):
            check_bytes(one, x.untyped_storage().nbytes(), of="storage_bytes", hint=hint)
        # Slices in unique_bytes have a test of their own.
        expect.parts(got["together"], 2, of="unique_bytes")
        for one in got["together"] if how != "as slices" else ():
            check_bytes(one, 2 * weight.nbytes + bias.nbytes, of="unique_bytes", hint=hint)
    sizes = [3, 40]
    got = student.run(probes.bytes_while_growing, sizes=sizes)
    for size, answers in zip(sizes, got, strict=True):
        for of in ("tensor_bytes", "storage_bytes", "unique_bytes"):
            check_bytes(answers[of], 4 * size, of=of, hint="a storage can grow between two calls")


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
    x = torch.zeros((), dtype=torch.int8)
    for of, argument in [("tensor_bytes", x), ("storage_bytes", x), ("unique_bytes", [x])]:
        got = getattr(student.tensor_memory, of)(argument)
        expect.value(got, 1, of=of, hint=hint)
    hint = "are large numbers of bytes rounded to a float on the way?"
    many = 2**53 + 1  # one more than a float can count
    x = torch.empty(many, dtype=torch.int8, device="meta")
    for view in (x, x[1::2]):
        got = student.tensor_memory.tensor_bytes(view)
        expect.value(got, len(view), of="tensor_bytes", hint=hint)
    got = student.tensor_memory.storage_bytes(x)
    expect.value(got, many, of="storage_bytes", hint=hint)
    y = torch.zeros(5, dtype=torch.int8)
    got = student.tensor_memory.unique_bytes([x, y])
    expect.value(got, many + 5, of="unique_bytes", hint=hint)
