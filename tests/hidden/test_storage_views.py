"""storage_views: which element is where, and what can be shown without a copy.

Accepted on purpose: any stride for a dimension of size 1 (no step is taken along it; torch's own choice has changed);
contiguous_strides of shapes without elements is not asked; lists of integers for shapes; ValueError or torch's own
RuntimeError where a window is longer than the vector; either answer for two storages without a byte, as both have the
address 0. The oracles are Tensor.view, Tensor.stride, Tensor.unfold and the element itself: a storage that holds 0, 1, 2, …
shows the offset of each element as its value.
"""

import itertools
import math

import torch

from tests import expect
from tests.probes import call_and_keep_inputs
from tests.probes import tensor_memory as probes


def numbered(*shape):
    """A contiguous tensor in which each element is its own number in the storage."""
    return torch.arange(math.prod(shape)).reshape(shape)


def integers(rng, low, high, count):
    return torch.randint(low, high, (count,), generator=rng).tolist()


def test_shares_storage_of_windows_that_do_not_touch(student, rng):
    """Two windows on one storage share it although they start elsewhere and have no element in common."""
    x = torch.rand(4, integers(rng, 3, 9, 1)[0], generator=rng)
    for a, b in [(x[0], x[3]), (x[:2], x[2:]), (x, x.T), (x[1:], x.view(torch.int32)), (x[::2], x.flatten()[1:2])]:
        got = student.tensor_memory.shares_storage(a, b)
        expect.value(got, True, of="shares_storage", hint="is the address of the first element compared?")


def test_shares_storage_of_equal_copies(student, rng):
    """Tensors with equal values in storages of their own share nothing; neither does an empty tensor."""
    x = torch.rand(5, generator=rng)
    for a, b in [(x, x.clone()), (torch.zeros(3), torch.zeros(3)), (torch.zeros(0), x)]:
        expect.value(student.tensor_memory.shares_storage(a, b), False, of="shares_storage")


def test_shares_storage_of_an_empty_window(student, rng):
    """An empty window on a storage is a window on it."""
    x = torch.rand(6, generator=rng)
    expect.value(student.tensor_memory.shares_storage(x[6:], x), True, of="shares_storage")


def test_element_offset_is_where_the_element_lies(student, rng):
    """The offset counts strides in elements, for permuted and stepped tensors too."""
    x = numbered(3, 4, 5)
    for view in (x, x.permute(2, 0, 1), x[:, ::2], x.transpose(0, 2)[1:, :, ::2]):
        index = [integers(rng, 0, size, 1)[0] for size in view.shape]
        got = student.tensor_memory.element_offset(view, index)
        expect.value(got, int(view[tuple(index)]), of="element_offset", hint="Σ index · stride, in elements")


def test_element_offset_counts_the_storage_offset(student, rng):
    """A view that starts inside the storage starts at its storage offset."""
    x = numbered(6, 7)
    first = integers(rng, 1, 4, 1)[0]
    for view, index in [(x[first:], (1, 2)), (x[first:, 3:], (0, 0)), (x[first].expand(4, 7), (3, 5)), (x[2, 3], ())]:
        got = student.tensor_memory.element_offset(view, index)
        expect.value(got, int(view[tuple(index)]), of="element_offset", hint="is the storage offset added?")


def test_element_offset_of_negative_indices(student):
    """A negative index counts from the end of its dimension."""
    view = numbered(4, 5).T[1:]
    for index in itertools.product((-1, -4, 2), (-2, -4, 3)):
        got = student.tensor_memory.element_offset(view, index)
        expect.value(got, int(view[index]), of="element_offset", hint="as in Python: -1 is the last")


def test_element_offset_refuses_wrong_indices(student):
    """Too few or too many entries are a ValueError that names `index`; one out of range is an IndexError."""
    x = numbered(3, 4)
    student.tensor_memory.element_offset(x, (1, 2))
    for index in [(1,), (1, 2, 0), ()]:
        with expect.raises(ValueError, of="element_offset", when="index has the wrong length", naming="index"):
            student.tensor_memory.element_offset(x, index)
    for index in [(3, 0), (0, 4), (-4, 0), (0, -5)]:
        with expect.raises(IndexError, of="element_offset", when="an index is out of range"):
            student.tensor_memory.element_offset(x, index)


def test_contiguous_strides_agree_with_torch(student, rng):
    """Row-major strides of any shape, also with sizes of 1, of a scalar, and of a list."""
    shapes = [
        (),
        (1,),
        (1, 1, 1),
        (4, 1, 3),
        (1, 5),
        [2, 3],
        tuple(integers(rng, 1, 6, 5)),
        tuple(integers(rng, 2, 9, 3)),
    ]
    for shape in shapes:
        got = student.tensor_memory.contiguous_strides(shape)
        expect.value(got, torch.empty(tuple(shape)).stride(), of="contiguous_strides")


def test_contiguous_strides_of_a_large_shape(student):
    """The strides of a shape that fits in no memory are exact integers."""
    got = student.tensor_memory.contiguous_strides((2, 2**40 + 1, 2**20 + 1))
    expect.value(got, ((2**40 + 1) * (2**20 + 1), 2**20 + 1, 1), of="contiguous_strides", hint="integers, not floats")


def test_contiguous_strides_refuses_a_negative_size(student):
    """A negative size is a ValueError that names `shape`; a size of 0 is none."""
    for shape in [(3, 1, 2), (3, 0, 2)]:
        expect.value(len(student.tensor_memory.contiguous_strides(shape)), 3, of="contiguous_strides")
    with expect.raises(ValueError, of="contiguous_strides", when="a size is negative", naming="shape"):
        student.tensor_memory.contiguous_strides((3, -1, 2))


def check_view(student, x, new_shape, hint):
    """view_strides agrees with Tensor.view: None where view refuses, else strides that show the same elements."""
    got = student.tensor_memory.view_strides(tuple(x.shape), x.stride(), new_shape)
    try:
        expected = x.view(new_shape)
    except RuntimeError:
        expect.that(got is None, "strides where only a copy can show these elements", of="view_strides", hint=hint)
        return
    expect.that(got is not None, "None where a view shows these elements", of="view_strides", hint=hint)
    expect.value(tuple(type(s) for s in got) if type(got) is tuple else got, (int,) * len(new_shape), of="view_strides")
    last = x.storage_offset() + sum((n - 1) * s for n, s in zip(new_shape, got, strict=True))
    inside = min(got, default=0) >= 0 and last < x.untyped_storage().nbytes() // x.element_size()
    same = inside and torch.equal(x.as_strided(new_shape, got), expected)
    expect.that(same, "strides that show other elements", of="view_strides", hint=hint)


# Stays: its tensors are contiguous, so it says that not even the plain case works.
def test_view_strides_merges_and_splits(student, rng):
    """Dimensions that step evenly are merged and any dimension can be split."""
    a, b, c = integers(rng, 2, 6, 3)
    x = numbered(a, b * 2, c * 3)
    for new_shape in [(a * b * 2, c * 3), (x.numel(),), (a, b, 2, 3, c), (a * 2, b * 3, c), (a * b, 6 * c)]:
        check_view(student, x, new_shape, "walk both shapes from the last dimension")


def test_view_strides_needs_a_copy(student, rng):
    """A transposed or sliced tensor cannot be flattened across the dimensions that do not step evenly."""
    a, b, c = integers(rng, 2, 5, 3)
    x = numbered(a * 2, b * 2, c * 2)
    for view in (x.transpose(0, 1), x.permute(2, 1, 0), x[:, 1:], x[:, :, ::2], x[::2], x[1:, :b]):
        n = view.numel()
        for new_shape in [(n,), (view.shape[0] * view.shape[1], -1), (view.shape[0], -1), (2, -1), (n // 2, 2)]:
            sizes = tuple(s if s > 0 else -n // math.prod(new_shape) for s in new_shape)
            check_view(student, view, sizes, "which neighbouring dimensions step evenly?")


def test_view_strides_of_permuted_blocks(student, rng):
    """Groups of dimensions that stay together through a permutation can still be merged."""
    a, b, c, d = integers(rng, 2, 5, 4)
    x = numbered(a, b, c, d).permute(2, 3, 0, 1)
    for new_shape in [(c * d, a * b), (c, d, a * b), (c * d, a, b), (c, d * a, b), (a * b * c * d,), (d * c, b, a)]:
        check_view(student, x, new_shape, "merge inside a group, never across groups")


def test_view_strides_of_expanded_dimensions(student, rng):
    """An expanded dimension has stride 0: it can be split, and merged only with another one of stride 0."""
    a, b = integers(rng, 2, 5, 2)
    x = numbered(a, 1, 1, b).expand(a, 4, 6, b)
    for new_shape in [(a, 24, b), (a, 2, 12, b), (a * 4, 6, b), (a, 4, 6 * b), (a, 2, 2, 3, 2, b), (a * 24 * b,)]:
        check_view(student, x, new_shape, "0 = size · 0 holds, 0 = size · stride does not")


def test_view_strides_ignores_dimensions_of_size_one(student, rng):
    """A dimension of size 1 never stands in the way, whatever its stride, and can be added anywhere."""
    a, b = integers(rng, 2, 6, 2)
    x = torch.as_strided(numbered(400), (a, 1, b, 1), (b, 77, 1, 0))
    for new_shape in [(a * b,), (1, a, 1, 1, b), (a, b, 1), (1, 1, a * b, 1), (b, a)]:
        check_view(student, x, new_shape, "no step is ever taken along a dimension of size 1")
    check_view(student, numbered(1, 1), (1,), "one element can be shown in any shape of ones")
    check_view(student, numbered(1)[0], (1, 1, 1), "a scalar is one element")
    check_view(student, numbered(1, 1), (), "a scalar is one element")


def test_view_strides_refuses_another_number_of_elements(student):
    """A new shape with another number of elements, or a negative size in it, is a ValueError."""
    student.tensor_memory.view_strides((2, 3), (3, 1), (6,))
    for new_shape in [(5,), (2, 2), (3, 3), (2, 3, 2), (-1,), (3, -1), (-2, -3)]:
        with expect.raises(ValueError, of="view_strides", when="new_shape does not fit"):
            student.tensor_memory.view_strides((2, 3), (3, 1), new_shape)


def test_sliding_windows_agree_with_unfold(student, rng):
    """Every whole window is there, `step` apart, and no other."""
    for n, size, step in [(10, 3, 1), (11, 4, 3), (9, 9, 2), (8, 1, 5), (12, 2, 2), (13, 5, 7)]:
        x = torch.rand(n, generator=rng)
        got = student.tensor_memory.sliding_windows(x, size, step)
        expect.tensor(got, x.unfold(0, size, step), of="sliding_windows", hint="(n - size) // step + 1 windows")


def test_sliding_windows_of_a_strided_vector(student, rng):
    """A vector that is a column, or starts inside its storage, has windows too."""
    x = torch.rand(12, 5, generator=rng)
    for view in (x[:, 2], x[1], x[3:, 4], x.flatten()[7::3]):
        got = student.tensor_memory.sliding_windows(view, 3, 2)
        expect.tensor(got, view.unfold(0, 3, 2), of="sliding_windows", hint="are x's stride and storage offset used?")


def test_sliding_windows_copies_nothing(student, rng):
    """The windows are a view: a change of x shows in them."""
    column = torch.rand(9, 5, generator=rng)[:, 2]
    for vector, size, step in [(torch.rand(9, generator=rng), 4, 2), (column, 2, 1)]:
        got = student.run(probes.windows, x=vector, size=size, step=step)
        expect.tensor(got["result"], vector.unfold(0, size, step), of="sliding_windows")
        expect.that(got["is_view"], "the windows are a copy, not a view of x", of="sliding_windows")


def test_sliding_windows_refuses_wrong_sizes(student):
    """A size or step below 1, or a size over n, is an error."""
    x = torch.zeros(5)
    student.tensor_memory.sliding_windows(x, 5, 1)
    for size, step, when in [
        (0, 1, "size is 0"),
        (-2, 1, "size is negative"),
        (2, 0, "step is 0"),
        (2, -1, "step is negative"),
    ]:
        with expect.raises(ValueError, of="sliding_windows", when=when):
            student.tensor_memory.sliding_windows(x, size, step)
    with expect.raises((ValueError, RuntimeError), of="sliding_windows", when="size is more than n"):
        student.tensor_memory.sliding_windows(x, 6, 1)


def test_inputs_are_left_as_they_were(student, rng):
    """Looking at a tensor does not change it."""
    x = torch.rand(8, generator=rng)
    got = student.run(call_and_keep_inputs, module="tensor_memory", function="sliding_windows", args=(x.clone(), 3, 2))
    expect.tensor(got["inputs"][0], x, of="sliding_windows", name="x after the call")
