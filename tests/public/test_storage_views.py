"""storage_views: offsets, strides and views without a copy. Handout §1.2."""

import pytest
import torch

from tests import expect


def test_shares_storage_of_two_halves(student):
    """The halves of one vector share its storage; a clone does not."""
    x = torch.zeros(8)
    expect.value(
        student.tensor_memory.shares_storage(x[:4], x[4:]),
        True,
        of="shares_storage",
        inputs="x[:4], x[4:]",
    )
    expect.value(
        student.tensor_memory.shares_storage(x, x.clone()),
        False,
        of="shares_storage",
        inputs="x, x.clone()",
    )


def test_element_offset_of_the_example(student):
    """Element [1, 2] of a contiguous 3×4 matrix is at offset 1·4 + 2 = 6.

    Element [1, 2] of its transpose is at offset 9.
    """
    x = torch.arange(12).reshape(3, 4)
    expect.value(
        student.tensor_memory.element_offset(x, (1, 2)),
        6,
        of="element_offset",
        inputs="int64[3, 4], (1, 2)",
    )
    expect.value(
        student.tensor_memory.element_offset(x.T, (1, 2)),
        9,
        of="element_offset",
        inputs="x.T, (1, 2)",
    )
    with expect.raises(
        (ValueError, IndexError), of="element_offset", when="index has too few entries"
    ):
        student.tensor_memory.element_offset(x, (1,))


def test_element_offset_of_a_slice(student):
    """Rows 1 and 2 of a 3×4 matrix start at offset 4, so element [0, 2] is at offset 4 + 2 = 6."""
    x = torch.arange(12).reshape(3, 4)
    inputs, hint = "x[1:], (0, 2)", "where in its storage does x[1:] start?"
    expect.value(
        student.tensor_memory.element_offset(x[1:], (0, 2)),
        6,
        of="element_offset",
        inputs=inputs,
        hint=hint,
    )


@pytest.mark.parametrize(("shape", "expected"), [((3, 4, 5), (20, 5, 1)), ((7,), (1,)), ((), ())])
def test_contiguous_strides(student, shape, expected):
    """The last stride is 1; each stride before it is the product of all later sizes."""
    expect.value(
        student.tensor_memory.contiguous_strides(shape),
        expected,
        of="contiguous_strides",
        inputs=f"{shape}",
    )


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
    got = student.tensor_memory.view_strides(shape, stride, new_shape)
    expect.value(got, expected, of="view_strides", inputs=f"{shape}, {stride}, {new_shape}")


def test_sliding_windows_of_the_example(student):
    """[0, 1, 2, 3, 4] with size 3 and step 2 gives two windows."""
    got = student.tensor_memory.sliding_windows(torch.arange(5), 3, 2)
    expect.tensor(
        got,
        torch.tensor([[0, 1, 2], [2, 3, 4]]),
        of="sliding_windows",
        inputs="x int64[5], size 3, step 2",
    )


def test_sliding_windows_copies_nothing(student):
    """The windows are a view: a write to x shows in every window that contains the element."""
    x = torch.arange(5)
    got = student.tensor_memory.sliding_windows(x, 3, 2)
    expect.kind(got, torch.Tensor, of="sliding_windows")
    x[2] = 70
    expected = torch.tensor([[0, 1, 70], [70, 3, 4]])
    expect.tensor(
        got,
        expected,
        of="sliding_windows",
        inputs="x int64[5]; then x[2] = 70",
        hint="are the windows a copy?",
    )
