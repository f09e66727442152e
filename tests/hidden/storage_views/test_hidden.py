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

from kit import expect
from kit.student import call_each
from tests.hidden import answer_that_keeps, integers
from tests.probes import tensor_memory as probes


def numbered(*shape):
    """Return a contiguous tensor in which the value of each element is its index in the storage."""
    return torch.arange(math.prod(shape)).reshape(shape)


def check_each(student, function, cases):
    """Check the answer to each call, given the right one and a hint for each."""
    calls = [args for args, _, _ in cases]
    results = student.run(call_each, module="tensor_memory", function=function, calls=calls)
    for got, (_, expected, hint) in zip(results, cases, strict=True):
        expect.value(got, expected, of=function, hint=hint)


# --- shares_storage


@pytest.mark.harm("wrong number")
def test_shares_storage_of_views(student, rng):
    """Views of one storage share it even if they have no element or no dtype in common."""
    x = torch.rand(4, integers(rng, 3, 9, 1)[0], generator=rng)
    hint = "does the code compare the addresses of the first elements, or ranges of addresses?"
    views = [((x, x), None), ((x[0], x[3]), hint), ((x[:2], x[2:]), hint), ((x, x.T), None)]
    views += [((x[1:], x.view(torch.int32)), "a storage has no dtype")]
    views += [((x[0, 0], x[-1, -1]), hint), ((x[1:].detach(), x), hint)]
    other = ((x, torch.zeros(9)), False, None)
    check_each(student, "shares_storage", [other, *((pair, True, hint) for pair, hint in views)])


# Stays: this test is about values, and its message should not speak of addresses.
@pytest.mark.harm("wrong number")
def test_shares_storage_of_equal_copies(student, rng):
    """Tensors with equal values but separate storages share nothing."""
    x = torch.rand(5, generator=rng)
    pairs = [(x, x.clone()), (torch.zeros(3), torch.zeros(3)), (x[1:], x.double())]
    others = [(pair, False, None) for pair in pairs]
    check_each(student, "shares_storage", [((x, x), True, None), *others])


@pytest.mark.harm("rare")
def test_shares_storage_on_meta(student, rng):
    """Storages are compared, not addresses: that of a meta storage is always 0."""
    got = student.run(probes.shares_storage_on_meta, shape=integers(rng, 2, 6, 2))
    hint = "x.untyped_storage() is the storage itself, even where its address is 0"
    expect.value(got, [True, False], of="shares_storage", hint=hint)


# --- element_offset


@pytest.mark.harm("wrong number")
def test_element_offset_is_where_the_element_lies(student, rng):
    """The offset is the storage offset plus the sum of index · stride, all in elements.

    Tensors may be permuted or strided, and begin inside their storage.
    """
    x, cases = numbered(3, 4, 5), []
    for view in (x, x.permute(2, 0, 1), x[:, ::2], x.transpose(0, 2)[:, :, ::2], x.int()):
        for at in ([integers(rng, 0, size, 1)[0] for size in view.shape], [-1] * view.dim()):
            at = tuple(i % size for i, size in zip(at, view.shape, strict=True))
            cases.append(((view, at), int(view[at]), "Σ index · stride, in elements"))
    check_each(student, "element_offset", cases)
    x = numbered(6, 7)
    first = integers(rng, 1, 4, 1)[0]
    views = [(x[first:], (1, 2)), (x[first:, 3:], (0, 0)), (x[first], (4,)), (x.T[2:], (0, 1))]
    cases = [((view, at), int(view[at]), "is the storage offset added?") for view, at in views]
    check_each(student, "element_offset", cases)


@pytest.mark.harm("wrong number")
def test_element_offset_of_negative_indices(student):
    """A negative index counts from the end of its dimension."""
    view, hint = numbered(4, 5), "as in Python: -1 is the last, -size the first"
    indices = itertools.product((-1, -4, 2), (-2, -5, 3))
    check_each(student, "element_offset", [((view, at), int(view[at]), hint) for at in indices])


@pytest.mark.harm("not refused")
def test_element_offset_refuses_wrong_indices(student):
    """An index out of range, or of the wrong length, raises an IndexError or a ValueError."""
    x = numbered(3, 4)
    with expect.right_call("a 3×4 tensor, index (1, 2)"):
        expect.value(student.tensor_memory.element_offset(x, (1, 2)), 6, of="element_offset")
    few, out = "index has too few entries", "an index is out of range"
    lengths = [((1,), few), ((1, 2, 0), "index has too many entries")]
    for index, when in [*lengths, ((3, 0), out), ((0, 4), out), ((0, -5), out)]:
        with expect.raises((IndexError, ValueError), of="element_offset", when=when):
            student.tensor_memory.element_offset(x, index)


# --- contiguous_strides and view_strides


@pytest.mark.harm("wrong number")
def test_contiguous_strides_agree_with_torch(student, rng):
    """Strides are row-major for every shape, including sizes of 1 and no dimension."""
    shapes = [(1,), (), (4, 1, 3), (1, 5), (7,), integers(rng, 1, 6, 5), integers(rng, 2, 9, 3)]
    calls = [(tuple(shape),) for shape in shapes]
    asked = {"module": "tensor_memory", "function": "contiguous_strides", "calls": calls}
    for got, shape in zip(student.run(call_each, **asked), shapes, strict=True):
        expect.kind(got, (tuple, list), of="contiguous_strides")
        expect.value(list(got), list(torch.empty(tuple(shape)).stride()), of="contiguous_strides")


def check_views(student, cases):
    """Check view_strides of each of these tensors and new shapes, with a hint for each."""
    calls = [(tuple(x.shape), x.stride(), new_shape) for x, new_shape, _ in cases]
    asked = {"module": "tensor_memory", "function": "view_strides", "calls": calls}
    for got, case in zip(student.run(call_each, **asked), cases, strict=True):
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
        reason = "returned strides although these elements need a copy"
        expect.that(got is None, reason, of=of, hint=hint)
        return
    reason = "returned None although a view can show these elements"
    expect.that(got is not None, reason, of=of, hint=hint)
    expect.kind(got, (tuple, list), of=of)
    expect.that(len(got) == len(new_shape), "expected one stride per size of new_shape", of=of)
    for stride in got:
        expect.kind(stride, int, of=of, name="a stride")
    same = all(g == e for g, e, n in zip(got, expected, new_shape, strict=True) if n > 1)
    expect.that(same, "the strides show other elements", of=of, hint=hint)


# Stays: all tensors of this test are contiguous, so a failure means that even the plain case fails.
@pytest.mark.harm("wrong number")
def test_view_strides_merges_and_splits(student, rng):
    """Dimensions that one stride can describe are merged, and any dimension can be split."""
    a, b, c = integers(rng, 2, 6, 3)
    x = numbered(a, b * 2, c * 3)
    hint = "iterate over both shapes from the last dimension"
    shapes = [(a * b * 2, c * 3), (x.numel(),), (a, b, 2, 3, c), (a * 2, b * 3, c), (a * b, 6 * c)]
    check_views(student, [(x, new_shape, hint) for new_shape in shapes])


@pytest.mark.harm("wrong number")
def test_view_strides_needs_a_copy(student, rng):
    """Dimensions that no single stride can describe, as in a transposed tensor, need a copy.

    Those that stay together in a permutation can still be merged.
    """
    a, b, c = integers(rng, 2, 5, 3)
    x, cases = numbered(a * 2, b * 2, c * 2), []
    hint = "can one stride describe both of these neighbouring dimensions?"
    for view in (x.transpose(0, 1), x.permute(2, 1, 0), x[:, 1:], x[:, :, ::2], x[::2], x[1:, :b]):
        n = view.numel()
        rows = view.shape[0]
        for sizes in [(n,), (rows * view.shape[1], -1), (rows, -1), (2, -1), (n // 2, 2)]:
            new_shape = tuple(s if s > 0 else -n // math.prod(sizes) for s in sizes)
            cases.append((view, new_shape, hint))
    hint = "the outer stride is exactly the inner size times the inner stride"
    for inner, more in itertools.product((1, 2, 3), (-1, 1)):
        cases.append((torch.as_strided(x, (a, b), (b * inner + more, inner)), (a * b,), hint))
    gaps = torch.as_strided(numbered(30), (6, 4), (5, 1))
    cases += [(gaps, new_shape, hint) for new_shape in [(8, 3), (2, 4, 3), (2, 3, 4), (4, 6)]]
    blocks = numbered(a, b, c, 6).permute(2, 3, 0, 1)
    for new_shape in [(c * 6, a * b), (c, 6, a * b), (c, 6 * a, b), (blocks.numel(),)]:
        cases.append((blocks, new_shape, "merge inside a group, never across groups"))
    check_views(student, cases)


@pytest.mark.harm("wrong number")
def test_view_strides_ignores_dimensions_of_size_one(student, rng):
    """A dimension of size 1, of any stride, never prevents a view and can be added anywhere."""
    a, b = integers(rng, 2, 6, 2)
    hint = "no step is ever taken along a dimension of size 1"
    x = torch.as_strided(numbered(400), (a, 1, b, 1), (b, 77, 1, 0))
    shapes = [(a * b,), (1, a, 1, 1, b), (a, b, 1), (1, 1, a * b, 1), (b, a)]
    cases = [(x, new_shape, hint) for new_shape in shapes]
    between = torch.as_strided(numbered(400), (1, a, 1, 1, b), (5, b, 77, 3, 1))
    cases += [(between, new_shape, hint) for new_shape in [(a * b,), (b, a), (1, a, b)]]
    hint = "across a 1, two dimensions are still neighbours"
    gaps = torch.as_strided(numbered(400), (a, 1, b), (b + 3, b + 1, 1))
    cases += [(gaps, new_shape, hint) for new_shape in [(a * b,), (a, b), (1, a * b)]]
    column = numbered(b, a)[:, :1]
    hint = "a column of a matrix is a vector"
    cases += [(column, new_shape, hint) for new_shape in [(b,), (1, b), (b, 1)]]
    check_views(student, cases)


@pytest.mark.harm("rare")
def test_view_strides_of_expanded_dimensions(student, rng):
    """An expanded dimension (stride 0) can be split, but merges only with another of stride 0."""
    a, b = integers(rng, 2, 5, 2)
    x = numbered(a, 1, 1, b).expand(a, 4, 6, b)
    hint = "0 = size · 0 holds, but 0 = size · stride does not"
    shapes = [(a, 24, b), (a, 2, 12, b), (a * 4, 6, b), (a, 4, 6 * b), (a * 24 * b,)]
    check_views(student, [(x, new_shape, hint) for new_shape in shapes])


# --- sliding_windows


def check_windows(student, cases, *, hint=None):
    asked = {"module": "tensor_memory", "function": "sliding_windows", "calls": cases}
    for got, (x, size, step) in zip(student.run(call_each, **asked), cases, strict=True):
        expect.tensor(got, x.unfold(0, size, step), of="sliding_windows", hint=hint)


@pytest.mark.harm("wrong number")
def test_sliding_windows_agree_with_unfold(student, rng):
    """The windows start `step` elements apart. Every complete window is returned, and no other."""
    steps = [(10, 3, 1), (11, 4, 3), (9, 9, 2), (8, 1, 5), (12, 2, 2), (13, 5, 7)]
    cases = [(torch.rand(n, generator=rng), size, step) for n, size, step in steps]
    check_windows(student, [*cases, (torch.arange(7), 3, 2)], hint="(n - size) // step + 1 windows")


# Stays: other tests see strides only beside the question whether the windows are a view.
@pytest.mark.harm("wrong number")
def test_sliding_windows_of_a_strided_vector(student, rng):
    """x may be a column of a matrix, or start inside its storage."""
    x = torch.rand(12, 5, generator=rng)
    views = [x[:, 2], x[1], x[3:, 4], x.flatten()[7::3]]
    hint = "does the code use x's stride and storage offset?"
    check_windows(student, [(view, 3, 2) for view in views], hint=hint)


@pytest.mark.harm("wrong number")
def test_sliding_windows_copies_nothing(student, rng):
    """The windows are a view of x: a change of x shows in them."""
    base = torch.rand(20, generator=rng)
    for first, every, size, step in [(0, 1, 4, 1), (2, 1, 3, 3), (0, 2, 3, 2), (1, 3, 2, 1)]:
        options = {"first": first, "every": every, "size": size, "step": step}
        got = student.run(probes.windows, base=base, **options)
        expected = base[first::every].unfold(0, size, step)
        expect.tensor(got["result"], expected, of="sliding_windows")
        hint = "a view, not a copy; strides of its own make one, whatever the stride of x is"
        name = "the windows after a change of x"
        expect.tensor(got["later"], -expected, of="sliding_windows", name=name, hint=hint)


# --- all functions


@pytest.mark.harm("not refused")
def test_sizes_that_do_not_fit_are_refused(student):
    """A view of another number of elements, or a window of more than n, raises an error."""
    x, errors = torch.arange(30)[:5], (ValueError, RuntimeError)
    with expect.right_call("shape (2, 3), stride (3, 1), new_shape (2, 3)"):
        check_views(student, [(numbered(2, 3), (2, 3), None)])
    for shape, stride, new_shape in [
        ((2, 3), (3, 1), (5,)),
        ((2, 3), (3, 1), (3, 3)),
        ((3, 2), (1, 3), (2, 2)),
    ]:
        when = "new_shape has a different number of elements"
        with expect.raises(errors, of="view_strides", when=when):
            student.tensor_memory.view_strides(shape, stride, new_shape)
    with expect.right_call("5 elements, size 4, step 1"):
        check_windows(student, [(x, 4, 1)])
    for size, step in [(6, 1), (8, 1), (7, 3)]:
        with expect.raises(errors, of="sliding_windows", when="size is more than n"):
            student.tensor_memory.sliding_windows(x, size, step)


@pytest.mark.harm("not refused")
def test_nothing_that_is_given_changes(student, rng):
    """A list of sizes or indices, and a vector that is windowed, stay as they were."""
    x = numbered(3, 4, 5)
    for function, args, expected in [
        ("element_offset", (x, [-1, 2, -3]), int(x[-1, 2, -3])),
        ("contiguous_strides", ([3, 4, 5],), x.stride()),
        ("view_strides", ([3, 4, 5], [20, 5, 1], [12, 5]), (5, 1)),
        ("sliding_windows", (numbered(8), 3, 2), numbered(8).unfold(0, 3, 2)),
    ]:
        got = answer_that_keeps(student, "tensor_memory", function, args)
        result = tuple(got["result"]) if isinstance(got["result"], list) else got["result"]
        check = expect.tensor if function == "sliding_windows" else expect.value
        check(result, expected, of=function)


@pytest.mark.harm("crash")
def test_strides_are_tuples(student, rng):
    """Strides are a tuple, as from Tensor.stride, so that the two compare equal."""
    a, b = integers(rng, 2, 6, 2)
    for function, args, want in [
        ("contiguous_strides", ((a, b),), (b, 1)),
        ("view_strides", ((a, b), (b, 1), (a * b,)), (1,)),
    ]:
        got = getattr(student.tensor_memory, function)(*args)
        expect.kind(got, tuple, of=function, hint="(20, 5, 1) == [20, 5, 1] is False in Python")
        expect.value(got, want, of=function)
