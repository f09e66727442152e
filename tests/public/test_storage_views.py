"""storage_views: offsets, strides and views without a copy. Handout §1.2."""

import itertools

import pytest
import torch

from kit import expect


def test_shares_storage_of_two_halves(student):
    """The halves of one vector share its storage; a clone does not."""
    x = torch.zeros(8)
    for y, z, want, inputs, hint in [
        (x[:4], x[4:], True, "x[:4], x[4:]", "the halves have no element in common, but a storage"),
        (x, x.clone(), False, "x, x.clone()", "a clone has equal values in a storage of its own"),
    ]:
        got = student.tensor_memory.shares_storage(y, z)
        expect.value(got, want, of="shares_storage", inputs=inputs, hints={not want: hint})


def test_element_offset_of_the_example(student):
    """Element [1, 2] of a contiguous 3×4 matrix is at offset 1·4 + 2 = 6.

    Element [1, 2] of its transpose is at offset 9.
    """
    x = torch.arange(12).reshape(3, 4)
    for y, want, inputs, hints in [
        (x, 6, "x int64[3, 4], (1, 2)", {48: "in elements, not in bytes", 9: "row by row"}),
        (x.T, 9, "x.T, (1, 2)", {5: "x.T is not contiguous: what are its strides?"}),
    ]:
        got = student.tensor_memory.element_offset(y, (1, 2))
        expect.value(got, want, of="element_offset", inputs=inputs, hints=hints)
    refusals, when = (ValueError, IndexError), "index has too few entries"
    with expect.raises(refusals, of="element_offset", when=when):
        student.tensor_memory.element_offset(x, (1,))


def test_element_offset_of_a_slice(student):
    """Rows 1 and 2 of a 3×4 matrix start at offset 4, so element [0, 2] is at offset 4 + 2 = 6."""
    x = torch.arange(12).reshape(3, 4)
    got = student.tensor_memory.element_offset(x[1:], (0, 2))
    hints = {2: "where in its storage does x[1:] start?", 34: "x.storage_offset() is in elements"}
    expect.value(got, 6, of="element_offset", inputs="x[1:], (0, 2)", hints=hints)


@pytest.mark.parametrize(
    ("shape", "expected"), [((3, 4, 5), (20, 5, 1)), ((7,), (1,)), ((2, 1, 3), (3, 3, 1))]
)
def test_contiguous_strides(student, shape, expected):
    """The last stride is 1; each stride before it is the product of all later sizes."""
    hints = [
        ((1, 3, 12), "the last dimension has stride 1"),
        ((4, 5, 1), "a stride is the product of all later sizes, not the next size"),
        ((60, 20, 5), "a stride does not include the dimension's own size"),
        ((160, 40, 8), "strides are in elements, not in bytes"),
        ((80, 20, 4), "strides are in elements, not in bytes"),
        ((3, 0, 1), "a dimension of size 1 has a stride like any other"),
    ]
    strides = student.tensor_memory.contiguous_strides(shape)
    expect.value(strides, expected, of="contiguous_strides", inputs=f"{shape}", hints=hints)


@pytest.mark.parametrize(
    ("shape", "stride", "new_shape", "expected"),
    [
        ((2, 3, 4), (12, 4, 1), (6, 4), (4, 1)),
        ((4, 3, 2), (1, 4, 12), (24,), None),
        ((4, 6), (6, 1), (4, 2, 3), (6, 3, 1)),
        ((2, 1, 3), (3, 99, 1), (6,), (1,)),
    ],
)
def test_view_strides(student, shape, stride, new_shape, expected):
    """Evenly spaced dimensions can be merged, and any dimension can be split.

    A transpose cannot be flattened, and the stride of a dimension of size 1 is ignored.
    """
    inputs = f"{shape}, {stride}, {new_shape}"
    got = student.tensor_memory.view_strides(shape, stride, new_shape)
    hint = "the stride of a dimension of size 1 is never used" if 99 in stride else None
    hint = hint if got is None or 99 in got else None
    expect.value(got, expected, of="view_strides", inputs=inputs, optional=True, hint=hint)


FEWER = "the last window is complete: there are (n - size) // step + 1"


def test_sliding_windows_of_the_example(student):
    """[0, 1, 2, 3, 4] with size 3 and step 2 gives two windows."""
    got = student.tensor_memory.sliding_windows(torch.arange(5), 3, 2)
    hints = [
        (torch.tensor([[0, 1, 2], [1, 2, 3]]), "a window begins `step` after the one before"),
        (torch.tensor([[0, 1, 2]]), FEWER),
    ]
    want, inputs = torch.tensor([[0, 1, 2], [2, 3, 4]]), "x int64[5], size 3, step 2"
    expect.tensor(got, want, of="sliding_windows", inputs=inputs, hints=hints)


def test_sliding_windows_copies_nothing(student):
    """The windows are a view: a write to x shows in every window that contains the element."""
    x = torch.arange(5)
    got = student.tensor_memory.sliding_windows(x, 3, 2)
    expect.kind(got, torch.Tensor, of="sliding_windows")
    x[2] = 70
    expected = torch.tensor([[0, 1, 70], [70, 3, 4]])
    inputs = "x int64[5]; then x[2] = 70"
    hints = [(torch.tensor([[0, 1, 2], [2, 3, 4]]), "are the windows a copy?")]
    expect.tensor(got, expected, of="sliding_windows", inputs=inputs, hints=hints)


def views():
    """Tensors of many layouts, each with a name."""
    x = torch.arange(120).reshape(2, 3, 4, 5)
    return {
        "contiguous": x,
        "permuted": x.permute(3, 1, 0, 2),
        "a slice with a step": x[1:, ::2, :, 1::2],
        "expanded": torch.arange(3)[None, :, None].expand(4, 3, 2),
        "a column": x[1, 2, :, 3],
        "a slice of float16": x.half()[:, 1:],
        "a narrow view": x.narrow(2, 1, 2)[:, :, :, :1],
    }


@pytest.mark.parametrize("name", views())
def test_element_offset_agrees_with_indexing(student, name):
    """torch's own x[index] is a view whose storage offset is the answer; negative entries too."""
    x = views()[name]
    for index in itertools.product(*(range(-size, size) for size in x.shape)):
        want = x[index].storage_offset()
        got = student.tensor_memory.element_offset(x, index)
        expect.value(got, want, of="element_offset", inputs=f"{name} {list(x.shape)}, {index}")


@pytest.mark.parametrize("index", [(3, 0), (0, 4), (-4, 0), (0, -5)])
def test_element_offset_refuses_an_index_out_of_range(student, index):
    """A 3×4 matrix has rows -3 … 2 and columns -4 … 3."""
    with expect.raises((IndexError, ValueError), of="element_offset", when=f"index is {index}"):
        student.tensor_memory.element_offset(torch.zeros(3, 4), index)


SHAPES = [(24,), (4, 6), (2, 3, 4), (6, 4), (2, 12), (1, 24), (3, 8, 1), (2, 2, 2, 3), (8, 3)]
LAYOUTS = [
    ((2, 3, 4), (12, 4, 1)),
    ((4, 3, 2), (1, 4, 12)),
    ((2, 3, 4), (24, 8, 2)),  # every second element
    ((2, 3, 4), (20, 6, 1)),  # gaps between rows
    ((6, 4), (4, 1)),
    ((6, 4), (0, 1)),  # expanded
    ((6, 4), (0, 0)),
    ((4, 6), (1, 4)),
    ((1, 24), (7, 1)),
    ((24, 1), (1, 7)),
    ((2, 3, 4), (4, 8, 1)),
    ((2, 1, 12), (20, 12, 1)),  # gaps between rows, with a 1 between the sizes
    ((3, 2, 4), (1, 12, 3)),
    ((24,), (5,)),  # every fifth element
]


@pytest.mark.parametrize(("shape", "stride"), LAYOUTS)
def test_view_strides_agrees_with_view(student, shape, stride):
    """Where Tensor.view refuses, the answer is None; the stride of a size 1 may be any number."""
    x = torch.zeros(200).as_strided(shape, stride)
    for new_shape in SHAPES:
        try:
            want = x.view(new_shape).stride()
        except RuntimeError:
            want = None
        inputs = f"{shape}, {stride}, {new_shape}"
        got = student.tensor_memory.view_strides(shape, stride, new_shape)
        if want is None or got is None:
            expect.value(got, want, of="view_strides", inputs=inputs, optional=True)
        else:
            expect.kind(got, (tuple, list), of="view_strides", optional=True)
            sizes = zip(new_shape, got, want, strict=True)
            steps = [(mine, theirs) for size, mine, theirs in sizes if size > 1]
            mine, theirs = ([step[i] for step in steps] for i in (0, 1))
            expect.value(mine, theirs, of="view_strides", inputs=inputs)


def test_view_strides_refuses_another_number_of_elements(student):
    """24 elements cannot be viewed as 20 or as 48."""
    for new_shape in ((4, 5), (48,)):
        when = f"24 elements become {new_shape}"
        with expect.raises((ValueError, RuntimeError), of="view_strides", when=when):
            student.tensor_memory.view_strides((4, 6), (6, 1), new_shape)


@pytest.mark.parametrize(("size", "step"), [(3, 2), (1, 1), (4, 4), (2, 5), (9, 1), (3, 3)])
def test_sliding_windows_agrees_with_unfold(student, size, step):
    """x may be a vector with gaps that starts in the middle of its storage."""
    x = torch.arange(30)[3::3]
    inputs = f"x torch.arange(30)[3::3], size {size}, step {step}"
    got = student.tensor_memory.sliding_windows(x, size=size, step=step)
    want = x.unfold(0, size, step)
    hints = [
        (want[:-1], FEWER),
        (torch.arange(30)[:27:3].unfold(0, size, step), "x does not begin where its storage does"),
        (torch.arange(3, 12).unfold(0, size, step), "x has stride 3"),
    ]
    expect.tensor(got, want, of="sliding_windows", inputs=inputs, hints=hints)
    shared = got.untyped_storage().data_ptr() == x.untyped_storage().data_ptr()
    expect.that(shared, "the windows are a copy", of="sliding_windows", hint="a view of x itself")
    row, inputs = torch.arange(30).reshape(3, 10)[1], f"a row of a matrix, size {size}, step {step}"
    got = student.tensor_memory.sliding_windows(row, size, step)
    expect.tensor(got, row.unfold(0, size, step), of="sliding_windows", inputs=inputs)


def test_sliding_windows_refuses_a_window_that_does_not_fit(student):
    """A window of 6 does not fit in 5 elements, even though their storage has 100."""
    with expect.raises((ValueError, RuntimeError), of="sliding_windows", when="size is above n"):
        student.tensor_memory.sliding_windows(torch.arange(100)[:5], 6, 1)


def test_shares_storage_of_other_views(student):
    """Views of one storage may differ in dtype, show one element each, or be detached."""
    x = torch.zeros(8)
    views = [("x, x.view(torch.int32)", x, x.view(torch.int32)), ("x, x.data", x, x.data)]
    for inputs, a, b in [*views, ("x[0], x[7]", x[0], x[7]), ("x[:3], x", x[:3], x)]:
        got = student.tensor_memory.shares_storage(a, b)
        expect.value(got, True, of="shares_storage", inputs=inputs)


def test_shares_storage_is_told_without_addresses(student):
    """Every meta storage has address 0, but each is another one."""
    meta = torch.zeros(8, device="meta")
    for a, b, want, inputs in [
        (meta[:4], meta[4:], True, "two halves of a meta tensor"),
        (meta, torch.zeros(8, device="meta"), False, "two meta tensors"),
    ]:
        got = student.tensor_memory.shares_storage(a, b)
        hints = {not want: "every meta storage has the address 0"}
        expect.value(got, want, of="shares_storage", inputs=inputs, hints=hints)


def test_shapes_may_be_lists_and_stay_as_they_are(student):
    """Lists of sizes, strides and indices are as good as tuples, and no list changes."""
    module = student.tensor_memory
    shape, stride, new_shape, index = [2, 3, 4], [12, 4, 1], [6, 4], [-1, 0, -2]
    expect.value(module.contiguous_strides(shape), (12, 4, 1), of="contiguous_strides")
    got = module.view_strides(shape, stride, new_shape)
    expect.kind(got, (tuple, list), of="view_strides", optional=True)
    expect.value(tuple(got), (4, 1), of="view_strides", inputs=f"{shape}, {stride}, {new_shape}")
    got = module.element_offset(torch.zeros(2, 3, 4), index)
    expect.value(got, 14, of="element_offset", inputs=f"{shape}, {index}")
    lists, name = [shape, stride, new_shape, index], "the caller's lists afterwards"
    expect.value(lists, [[2, 3, 4], [12, 4, 1], [6, 4], [-1, 0, -2]], of="view_strides", name=name)
