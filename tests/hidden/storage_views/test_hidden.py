"""storage_views: where each element is, and which shapes are possible without a copy.

The oracles are Tensor.view, Tensor.stride, Tensor.unfold and the element itself: in a storage that
contains 0, 1, 2, …, the value of each element is its offset. Strides may be a list, except in the
one test that asks for tuples. A wrong call may raise a ValueError or torch's own error (an
IndexError for an index, a RuntimeError for sizes).
"""

import itertools
import math

import pytest
import torch
from torch import Tensor

from kit import expect
from kit.student import call_and_keep_inputs, call_each
from tests.probes import tensor_memory as probes

DTYPES = [
    torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.complex64,
    torch.int64, torch.int32, torch.uint8, torch.bool,
]  # fmt: skip
VALUES = (2e4, 1e-6, math.inf, 0.0)  # of each dtype in turn


def numbered(*shape):
    """Return a contiguous tensor in which the value of each element is its index in the storage."""
    return torch.arange(math.prod(shape)).reshape(shape)


def integers(rng, low, high, count):
    return torch.randint(low, high, (count,), generator=rng).tolist()


def answers(student, function, calls):
    """Call the student's function with each of these arguments, one after the other."""
    return student.run(call_each, module="tensor_memory", function=function, calls=list(calls))


def check_each(student, function, cases):
    """Check the answer to each call, given the right one and a hint for each."""
    results = answers(student, function, [args for args, _, _ in cases])
    for got, (_, expected, hint) in zip(results, cases, strict=True):
        expect.value(got, expected, of=function, hint=hint)


def of_each_dtype(*shape):
    """A tensor of each dtype, filled with one value."""
    for i, dtype in enumerate(DTYPES):
        yield torch.full(shape, VALUES[i % len(VALUES)]).to(dtype)


@pytest.mark.core
@pytest.mark.points(5)
def test_shares_storage_of_windows_that_do_not_touch(student, rng):
    """Two views of one storage share it even if they have no element in common."""
    x = torch.rand(4, integers(rng, 3, 9, 1)[0], generator=rng)
    other = torch.rand(9, dtype=torch.float64, generator=rng)
    hint = "does the code compare the addresses of the first elements, or ranges of addresses?"
    cases = []
    for a, b in [
        (x[0], x[3]),
        (x[:2], x[2:]),
        (x, x.T),
        (x[1:], x.view(torch.int32)),
        (x[::2], x.flatten()[1:2]),
        (x[0, 0], x[-1, -1]),
    ]:
        cases += [((a, b), True, hint), ((a, other), False, None)]
    for i, x in enumerate(of_each_dtype(2, 1, 3)):
        view = (x[1], x[0, 0, 0], x.expand(2, 4, 3), x.view(6))[i % 4]
        cases += [((x, view), True, hint), ((view, x), True, hint)]
    check_each(student, "shares_storage", cases)


# Stays: this test is about values, and its message should not speak of devices or of windows.
@pytest.mark.points(3)
def test_shares_storage_of_equal_copies(student, rng):
    """Tensors with equal values but separate storages share nothing, nor do empty tensors."""
    x = torch.rand(5, generator=rng)
    pairs = [(x, x.clone()), (torch.zeros(3), torch.zeros(3)), (torch.zeros(0), x)]
    pairs += [(x.clone(), x) for x in of_each_dtype(2, 3)]
    cases = [((x, x), True, None), *((pair, False, None) for pair in pairs)]
    check_each(student, "shares_storage", cases)


# Stays: an empty slice of a storage with elements is the common case, which needs no odd device.
def test_shares_storage_of_an_empty_window(student, rng):
    """A slice without elements still shares its storage."""
    x, other = torch.rand(6, generator=rng), torch.rand(6, generator=rng)
    cases = [((x, other), False), ((x[:0], x), True), ((x[1:], x[6:]), True)]
    check_each(student, "shares_storage", [(*case, None) for case in cases])


def test_shares_storage_where_addresses_are_zero(student, rng):
    """Storages are compared, not addresses: that of an empty or a meta storage is always 0."""
    size = integers(rng, 2, 6, 1)[0]
    hint = "x.untyped_storage() is the storage itself, even where its address is 0"
    for shape, device in [((size, 3), "cpu"), ((size, 3), "meta"), ((0, 3), "cpu"), ((0,), "meta")]:
        got = student.run(probes.shares_storage_of_made, shape=shape, device=device)
        # With itself, its data, four views of it, and another tensor.
        for both, expected in zip(got, (*[True] * 6, False), strict=True):
            expect.value(both, (expected, expected), of="shares_storage", hint=hint)


@pytest.mark.core
@pytest.mark.points(5)
def test_element_offset_is_where_the_element_lies(student, rng):
    """The offset is a sum of index · stride, in elements, even for permuted or strided tensors."""
    x, cases = numbered(3, 4, 5), []
    for view in (x, x.permute(2, 0, 1), x[:, ::2], x.transpose(0, 2)[:, :, ::2]):
        index = [integers(rng, 0, size, 1)[0] for size in view.shape]
        last = [size - 1 for size in view.shape]
        for at in (index, last):
            hint = "Σ index · stride, in elements"
            cases.append(((view, at), int(view[tuple(at)]), hint))
    x = torch.empty(3, 2**53 + 1, device="meta").T  # more elements than a float can count
    for at in [(2**53 - 1, 1), (-2, 2)]:
        expected = at[0] % len(x) + at[1] * len(x)
        cases.append(((x, at), expected, "Σ index · stride, as ints"))
    offsets = numbered(2, 1, 3)
    for i, x in enumerate(of_each_dtype(2, 1, 3)):
        part = ((), (1,), (1, 0), (1, 0, 2))[i % 4]
        at = tuple(size - 1 for size in offsets[part].shape)
        cases.append(((x[part], at), int(offsets[part][at]), None))
    check_each(student, "element_offset", cases)


# Stays: the offset is a rule of its own; the other tests meet it only in single cases.
@pytest.mark.core
@pytest.mark.points(5)
def test_element_offset_counts_the_storage_offset(student, rng):
    """The offset counts from the start of the storage, so it includes a view's storage offset."""
    x = numbered(6, 7)
    first = integers(rng, 1, 4, 1)[0]
    for view, index in [
        (x[first:], (1, 2)),
        (x[first:, 3:], (0, 0)),
        (x[first].expand(4, 7), (0, 5)),
        (x[2, 3], ()),
    ]:
        got = student.tensor_memory.element_offset(view, index)
        expect.value(
            got, int(view[tuple(index)]), of="element_offset", hint="is the storage offset added?"
        )


@pytest.mark.points(3)
def test_element_offset_of_negative_indices(student):
    """A negative index counts from the end of its dimension."""
    view, hint = numbered(4, 5), "as in Python: -1 is the last, -size the first"
    indices = itertools.product((-1, -4, 2), (-2, -5, 3))
    cases = [((view, index), int(view[index]), hint) for index in indices]
    check_each(student, "element_offset", cases)


def test_element_offset_of_a_parameter(student, rng):
    """A parameter's elements have offsets like all others, also without gradients."""
    x = torch.rand(4, integers(rng, 3, 7, 1)[0], generator=rng)
    indices = [(0, 0), (2, 1), (-1, -1)]
    for mode in ("in grad mode", "without gradients", "of a conjugate"):
        got = student.run(probes.element_offsets, x=x, indices=indices, mode=mode)
        expected = [int(numbered(4, x.shape[1])[1:][at]) for at in indices]
        expect.value(got, expected, of="element_offset", name="the offsets")


def test_element_offset_refuses_wrong_indices(student):
    """An index out of range, or of the wrong length, raises an IndexError or a ValueError."""
    x = numbered(3, 4)
    with expect.right_call("a 3×4 tensor, index (1, 2)"):
        expect.kind(student.tensor_memory.element_offset(x, (1, 2)), int, of="element_offset")
    for index, when in [
        ((1,), "index has too few entries"),
        ((1, 2, 0), "index has too many entries"),
        ((3, 0), "an index is out of range"),
        ((0, 4), "an index is out of range"),
        ((0, -5), "an index is out of range"),
        ((), "index has too few entries"),
    ]:
        with expect.raises((IndexError, ValueError), of="element_offset", when=when):
            student.tensor_memory.element_offset(x, index)
    for empty, index in [
        (x[:0], (0, 0)),
        (x[:, :0], (0, -1)),
        (x[0, 0], (0,)),
        (x[:1].expand(2, 4), (2, 0)),  # its stride is 0
        (x[:1].expand(2, 4), (-3, 0)),
        (x[:1, :1], (0, 1)),
        (x[:1, :1], (-2, 0)),
        (x[:1], (1, 0)),
        (x[:, :1], (1, -2)),
        (x.T, (0, 3)),
        (x.T, (3,)),
        (x[1:, ::2], (-3, 0)),
        (x[1:, ::2], (0, 0, 0)),
    ]:
        with expect.raises(
            (IndexError, ValueError), of="element_offset", when="no element has this index"
        ):
            student.tensor_memory.element_offset(empty, index)


@pytest.mark.core
@pytest.mark.points(5)
def test_contiguous_strides_agree_with_torch(student, rng):
    """Strides are row-major for every shape, including (), sizes of 1 and shapes as lists."""
    shapes = [
        (),
        (1,),
        (1, 1, 1),
        (4, 1, 3),
        (1, 5),
        [2, 3],
        tuple(integers(rng, 1, 6, 5)),
        tuple(integers(rng, 2, 9, 3)),
        (3, 2**53 + 1),  # more than a float can count
        (2, 1, 5, 2**56 + 3, 1),
    ]
    results = answers(student, "contiguous_strides", [(shape,) for shape in shapes])
    for got, shape in zip(results, shapes, strict=True):
        expect.kind(got, (tuple, list), of="contiguous_strides")
        expect.value(
            list(got),
            list(torch.empty(tuple(shape), device="meta").stride()),
            of="contiguous_strides",
        )


def check_views(student, cases, *, kind=tuple):
    """Check view_strides of each of these tensors and new shapes, with a hint for each."""
    calls = [(kind(x.shape), kind(x.stride()), kind(new_shape)) for x, new_shape, _ in cases]
    for got, case in zip(answers(student, "view_strides", calls), cases, strict=True):
        check_view(got, *case)


def check_view(got, x, new_shape, hint):
    """Check an answer of view_strides against Tensor.view.

    It must be None where view refuses, and otherwise the same strides, except along dimensions
    of size 1.
    """
    of = "view_strides"
    try:
        expected = x.view(new_shape).stride()
    except RuntimeError:
        expect.that(
            got is None, "returned strides although these elements need a copy", of=of, hint=hint
        )
        return
    expect.that(
        got is not None, "returned None although a view can show these elements", of=of, hint=hint
    )
    expect.kind(got, (tuple, list), of=of)
    expect.that(len(got) == len(new_shape), "expected one stride per size of new_shape", of=of)
    for stride in got:
        expect.kind(stride, int, of=of, name="a stride")
        expect.that(stride >= 0, "a stride is less than 0", of=of)
    same = all(g == e for g, e, n in zip(got, expected, new_shape, strict=True) if n > 1)
    expect.that(same, "the strides show other elements", of=of, hint=hint)


# Stays: all tensors of this test are contiguous, so a failure means that even the plain case fails.
@pytest.mark.core
@pytest.mark.points(4)
def test_view_strides_merges_and_splits(student, rng):
    """Dimensions that one stride can describe are merged, and any dimension can be split."""
    a, b, c = integers(rng, 2, 6, 3)
    x = numbered(a, b * 2, c * 3)
    shapes = [
        (a * b * 2, c * 3),
        (x.numel(),),
        (a, b, 2, 3, c),
        (a * 2, b * 3, c),
        (a * b, 6 * c),
    ]
    for kind, hint in [
        (tuple, "iterate over both shapes from the last dimension"),
        (list, "shapes may be lists"),
    ]:
        check_views(student, [(x, new_shape, hint) for new_shape in shapes], kind=kind)


# Stays: this is the plain case of a copy, and the other tests have sizes or strides of one kind.
@pytest.mark.core
@pytest.mark.points(4)
def test_view_strides_needs_a_copy(student, rng):
    """Dimensions that no single stride can describe, as in a transposed tensor, need a copy."""
    a, b, c = integers(rng, 2, 5, 3)
    x, cases = numbered(a * 2, b * 2, c * 2), []
    for view in (x.transpose(0, 1), x.permute(2, 1, 0), x[:, 1:], x[:, :, ::2], x[::2], x[1:, :b]):
        n = view.numel()
        for new_shape in [
            (n,),
            (view.shape[0] * view.shape[1], -1),
            (view.shape[0], -1),
            (2, -1),
            (n // 2, 2),
        ]:
            sizes = tuple(s if s > 0 else -n // math.prod(new_shape) for s in new_shape)
            hint = "can one stride describe both of these neighbouring dimensions?"
            cases.append((view, sizes, hint))
    hint = "the outer stride is exactly the inner size times the inner stride"
    for inner, more in itertools.product((1, 2, 3), (-1, 1)):
        rows = torch.as_strided(x, (a, b), (b * inner + more, inner))
        cases.append((rows, (a * b,), hint))
    check_views(student, cases)


# Stays: the other tests permute single dimensions, not blocks of them.
@pytest.mark.points(3)
def test_view_strides_of_permuted_blocks(student, rng):
    """Dimensions that stay together in a permutation can still be merged."""
    a, b, c, d = integers(rng, 2, 5, 4)
    x = numbered(a, b, c, d).permute(2, 3, 0, 1)
    shapes = [
        (c * d, a * b),
        (c, d, a * b),
        (c * d, a, b),
        (c, d * a, b),
        (a * b * c * d,),
        (d * c, b, a),
    ]
    hint = "merge inside a group, never across groups"
    check_views(student, [(x, new_shape, hint) for new_shape in shapes])


@pytest.mark.points(3)
def test_view_strides_of_expanded_dimensions(student, rng):
    """An expanded dimension (stride 0) can be split, but merges only with another of stride 0."""
    a, b = integers(rng, 2, 5, 2)
    x = numbered(a, 1, 1, b).expand(a, 4, 6, b)
    shapes = [
        (a, 24, b),
        (a, 2, 12, b),
        (a * 4, 6, b),
        (a, 4, 6 * b),
        (a, 2, 2, 3, 2, b),
        (a * 24 * b,),
    ]
    hint = "0 = size · 0 holds, but 0 = size · stride does not"
    cases = [(x, new_shape, hint) for new_shape in shapes]
    x, hint = numbered(1).expand(a, 6), "one element, shown again and again: each stride is 0"
    shapes = [(a * 6,), (a, 2, 3), (6, a), (a, 6)]
    check_views(student, [*cases, *((x, new_shape, hint) for new_shape in shapes)])


@pytest.mark.points(3)
def test_view_strides_ignores_dimensions_of_size_one(student, rng):
    """A dimension of size 1, of any stride, never prevents a view and can be added anywhere."""
    a, b = integers(rng, 2, 6, 2)
    x, cases = torch.as_strided(numbered(400), (a, 1, b, 1), (b, 77, 1, 0)), []
    for new_shape in [(a * b,), (1, a, 1, 1, b), (a, b, 1), (1, 1, a * b, 1), (b, a)]:
        cases.append((x, new_shape, "no step is ever taken along a dimension of size 1"))
    for stride in (a * b + 5, b + 1, 1):
        x = torch.as_strided(numbered(400), (a, 1, b), (b + 3, stride, 1))
        for new_shape in [(a * b,), (a, b), (a, b, 1), (1, a * b)]:
            cases.append((x, new_shape, "across a 1, two dimensions are still neighbours"))
    cases.append((numbered(1, 1), (1,), "one element can be viewed in any shape of ones"))
    cases.append((numbered(1)[0], (1, 1, 1), "a scalar is one element"))
    cases.append((numbered(1, 1), (), "a scalar is one element"))
    cases.append((numbered(1)[0], (), "a scalar has no strides: (), not None"))
    for column in (numbered(b, a)[:, :1], numbered(b, a).T[:, 1:2], numbered(2 * a)[1::2]):
        n = column.numel()
        for new_shape in [(n,), (n, 1), (1, n), (1, n, 1)]:
            cases.append((column, new_shape, "a vector is a column, and a row of one row"))
    hint = "two dimensions of one size have strides of their own"
    for square in (numbered(a, a), numbered(a, a).T, numbered(a, 1).expand(a, a)):
        for new_shape in [(a, a), (a, 1, a), (1, a, a, 1), (a * a,)]:
            cases.append((square, new_shape, hint))
    check_views(student, cases)


def test_view_strides_refuses_another_number_of_elements(student):
    """A new shape with a different number of elements is an error, not a reason to return None."""
    with expect.right_call("shape (2, 3), stride (3, 1), new_shape (2, 3)"):
        check_views(student, [(numbered(2, 3), (2, 3), None)])
    for shape, stride, new_shapes in [
        ((2, 3), (3, 1), [(5,), (2, 2), (3, 3), (2, 3, 2), ()]),
        ((3, 2), (1, 3), [(5,), (3, 1), (3, 4), (3, 2, 2)]),  # transposed
        ((2, 3), (5, 1), [(8,), (2, 6), (3,)]),  # a gap between the rows
        ((2, 3), (0, 1), [(2, 2), (12,)]),
        ((1, 4), (77, 2), [(2,), (4, 2)]),
        ((), (), [(2,)]),
    ]:
        for new_shape in new_shapes:
            with expect.raises(
                (ValueError, RuntimeError),
                of="view_strides",
                when="new_shape has a different number of elements",
            ):
                student.tensor_memory.view_strides(shape, stride, new_shape)


@pytest.mark.core
@pytest.mark.points(5)
def test_sliding_windows_agree_with_unfold(student, rng):
    """The windows start `step` elements apart. Every complete window is returned, and no other."""
    cases = []
    for n, size, step in [
        (10, 3, 1),
        (11, 4, 3),
        (9, 9, 2),
        (8, 1, 5),
        (12, 2, 2),
        (13, 5, 7),
        (1, 1, 1),
        (6, 4, 2**53),
    ]:
        cases.append((torch.rand(n, generator=rng), size, step))
    complex_numbers = torch.randn(5, generator=rng, dtype=torch.complex64)
    cases += [(x, 2, 2) for x in (*of_each_dtype(5), complex_numbers)]
    for got, (x, *steps) in zip(answers(student, "sliding_windows", cases), cases, strict=True):
        hint = "(n - size) // step + 1 windows"
        expect.tensor(got, x.unfold(0, *steps), of="sliding_windows", hint=hint)
    got = student.run(probes.windows_of_conjugates, x=complex_numbers, size=2, step=2)
    hint = "conj() only sets a bit of the tensor, and so does the minus of its imaginary part"
    for made, x in zip(got, (complex_numbers.conj(), complex_numbers.conj().imag), strict=True):
        expect.tensor(made["result"], x.unfold(0, 2, 2), of="sliding_windows", hint=hint)


def check_windows(got, x, size, step, *, hint=None):
    """Check the windows that were returned; the test above judges how many there are."""
    expected = x.unfold(0, size, step)
    expect.kind(got, Tensor, of="sliding_windows", hint=hint)
    some = got.dim() == 2 and len(got) >= 1
    expect.that(
        some,
        f"expected windows of shape (windows, {size}), got shape {tuple(got.shape)}",
        of="sliding_windows",
    )
    count = min(len(got), len(expected))
    expect.tensor(got[:count], expected[:count], of="sliding_windows", hint=hint)


# Stays: other tests see strides only beside gradients and kinds of tensors.
@pytest.mark.points(3)
def test_sliding_windows_of_a_strided_vector(student, rng):
    """x may be a column of a matrix, or start inside its storage."""
    x = torch.rand(12, 5, generator=rng)
    views = (x[:, 2], x[1], x[3:, 4], x.flatten()[7::3], x[0, 1].expand(6))
    results = answers(student, "sliding_windows", [(view, 3, 2) for view in views])
    for got, view in zip(results, views, strict=True):
        check_windows(got, view, 3, 2, hint="does the code use x's stride and storage offset?")


@pytest.mark.core
@pytest.mark.points(4)
def test_sliding_windows_copies_nothing(student, rng):
    """The windows are a view of x: a change of x shows in them."""
    column = torch.rand(9, 5, generator=rng)[:, 0]
    plain = torch.rand(9, generator=rng)
    whole, pairs = torch.arange(9), torch.randn(9, dtype=torch.complex64, generator=rng)
    for i, (vector, size, step) in enumerate([
        (plain, 4, 1), (column, 2, 1), (plain, 9, 1), (column, 3, 3), (plain, 3, 3), (plain, 1, 1),
        (column, 1, 2), (plain, 2, 5), (column, 9, 4), (plain[2:], 3, 2), (column[3:], 2, 1),
        (plain, 3, 2), (column[:1], 1, 1), (column, 4, 2), (plain[:1].expand(6), 3, 2),
        (whole, 3, 2), (whole[1:].int(), 2, 2), (pairs, 4, 1), (plain.double()[2:], 3, 3),
    ]):  # fmt: skip
        got = student.run(
            probes.windows,
            x=vector,
            size=size,
            step=step,
            gradients=i % 2 == 1,
            required=vector.is_floating_point() and (i % 3 == 0 or vector is column),
        )
        check_windows(got["result"], vector, size, step)
        expect.that(got["is_view"], "the windows are a copy, not a view of x", of="sliding_windows")
    results = student.run(probes.windows_of_conjugates, x=pairs, size=2, step=2)
    expect.parts(results, 2, of="sliding_windows")
    for made in results:
        reason = "the windows of a conjugate are a copy, not a view of x"
        expect.that(made["is_view"], reason, of="sliding_windows", hint="conj() only sets a bit")


def test_sliding_windows_refuses_a_vector_that_is_too_short(student):
    """A size larger than n raises an error, because no complete window exists."""
    x = torch.arange(30)[:5]
    with expect.right_call("5 elements, size 4, step 1"):
        check_windows(student.tensor_memory.sliding_windows(x, 4, 1), x, 4, 1)
    for size, step in [(6, 1), (8, 1), (7, 3)]:
        with expect.raises(
            (ValueError, RuntimeError), of="sliding_windows", when="size is more than n"
        ):
            student.tensor_memory.sliding_windows(x, size, step)
    column, when = numbered(6, 5)[:, 1], "size is more than n"
    with expect.raises((ValueError, RuntimeError), of="sliding_windows", when=when):
        student.tensor_memory.sliding_windows(column, 7, 2)
    with expect.raises((ValueError, RuntimeError), of="sliding_windows", when="x is empty"):
        student.tensor_memory.sliding_windows(x[:0], 1, 1)


# Stays: the other tests notice only a change of x that makes the windows wrong.
def test_sliding_windows_leaves_x_as_it_was(student, rng):
    """sliding_windows does not change x."""
    x = torch.rand(8, generator=rng)
    got = student.run(
        call_and_keep_inputs,
        module="tensor_memory",
        function="sliding_windows",
        args=(x.clone(), 3, 1),
    )
    check_windows(got["result"], x, 3, 1)
    expect.tensor(got["inputs"][0], x, of="sliding_windows", name="x after the call")
    expect.generators_left(got["generators_changed"], of="sliding_windows")


def test_lists_are_left_as_they_were(student):
    """A shape, a stride or an index that is a list is not changed."""
    x = numbered(3, 4, 5)
    for function, args, expected in [
        ("element_offset", (x, [-1, 2, -3]), int(x[-1, 2, -3])),
        ("contiguous_strides", ([3, 4, 5],), x.stride()),
        ("view_strides", ([3, 4, 5], [20, 5, 1], [12, 5]), (5, 1)),
        ("view_strides", ([3, 4, 5], [1, 3, 12], [12, 5]), None),
    ]:
        given = tuple(list(a) if isinstance(a, list) else a for a in args)
        got = student.run(
            call_and_keep_inputs, module="tensor_memory", function=function, args=given
        )
        result = got["result"]
        result = tuple(result) if isinstance(result, list) else result
        expect.value(result, expected, of=function)
        for after, before in zip(got["inputs"], args, strict=True):
            if isinstance(before, list):
                expect.value(after, before, of=function, name="an input after the call")
        expect.generators_left(got["generators_changed"], of=function)


def test_strides_are_tuples(student, rng):
    """Strides are a tuple, as from Tensor.stride, so that the two compare equal."""
    a, b = integers(rng, 2, 6, 2)
    hint = "(20, 5, 1) == [20, 5, 1] is False in Python"
    got = student.tensor_memory.contiguous_strides((a,))
    expect.value(got, (1,), of="contiguous_strides", hint=hint)
    for kind in (tuple, list):
        got = student.tensor_memory.contiguous_strides(kind((a, b)))
        expect.value(got, (b, 1), of="contiguous_strides", hint=hint)
        for shape in ((a, b), (a * b,)):
            right = (b, 1) if len(shape) == 2 else (1,)
            got = student.tensor_memory.view_strides(kind((a, b)), kind((b, 1)), kind(shape))
            expect.value(got, right, of="view_strides", hint=hint)
