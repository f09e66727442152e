"""einops: splitting and merging axes, products and means over named axes. Handout §3.1."""

import torch

from tests import expect


def test_split_heads_of_the_example(student):
    """Each position's first half goes to head 0, its second half to head 1."""
    x = torch.tensor([[1.0, 2.0, 3.0, 4.0], [5.0, 6.0, 7.0, 8.0]])
    expected = torch.tensor([[[1.0, 2.0], [5.0, 6.0]], [[3.0, 4.0], [7.0, 8.0]]])
    got = student.einops_reshaping.split_heads(x, 2)
    expect.tensor(got, expected, of="split_heads", inputs="x [[1, 2, 3, 4], [5, 6, 7, 8]], heads 2")
    with expect.raises(
        (ValueError, RuntimeError),
        of="split_heads",
        when="heads does not divide the last dimension",
    ):
        student.einops_reshaping.split_heads(x, 3)


def test_merge_heads_of_the_example(student):
    """Two heads are put side by side again, here with a batch dimension in front."""
    x = torch.tensor([[[[1.0, 2.0], [5.0, 6.0]], [[3.0, 4.0], [7.0, 8.0]]]])
    expected = torch.tensor([[[1.0, 2.0, 3.0, 4.0], [5.0, 6.0, 7.0, 8.0]]])
    got = student.einops_reshaping.merge_heads(x)
    expect.tensor(
        got, expected, of="merge_heads", inputs="heads [[1, 2], [5, 6]] and [[3, 4], [7, 8]]"
    )


def test_attention_scores_of_the_example(student):
    """A query and a key of four ones: 4 / √4 = 2. A key that is orthogonal to the query: 0."""
    q = torch.ones(1, 4)
    k = torch.tensor([[1.0, 1.0, 1.0, 1.0], [1.0, -1.0, 1.0, -1.0]])
    got = student.einops_reshaping.attention_scores(q, k)
    expect.tensor(
        got,
        torch.tensor([[2.0, 0.0]]),
        of="attention_scores",
        atol=1e-6,
        hint="is the product divided by √d?",
    )


def test_per_head_linear_of_the_example(student):
    """Head 0 multiplies by 10 and head 1 by 100."""
    x, w = torch.tensor([3.0, 5.0]), torch.tensor([[[10.0]], [[100.0]]])
    got = student.einops_reshaping.per_head_linear(x, w)
    expect.tensor(
        got, torch.tensor([30.0, 500.0]), of="per_head_linear", inputs="x [3, 5], w 10 and 100"
    )


def test_masked_mean_of_the_example(student):
    """The mean of the first and the third position; zeros where the mask keeps none."""
    x = torch.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
    mask = torch.tensor([[True, False, True], [False, False, False]])
    got = student.einops_reshaping.masked_mean(x.expand(2, 3, 2), mask)
    expected = torch.tensor([[3.0, 4.0], [0.0, 0.0]])
    expect.tensor(
        got,
        expected,
        of="masked_mean",
        atol=1e-6,
        hint="divide by the number of positions that are kept",
    )


def test_masked_mean_of_padding_that_is_nan(student):
    """Padding that is NaN does not change the mean of the positions that are kept."""
    x = torch.tensor([[1.0, 2.0], [float("nan"), float("nan")], [5.0, 6.0]])
    got = student.einops_reshaping.masked_mean(x, torch.tensor([True, False, True]))
    inputs, hint = "x [[1, 2], [nan, nan], [5, 6]], mask (True, False, True)", "0 · NaN is NaN"
    expect.tensor(
        got, torch.tensor([3.0, 4.0]), of="masked_mean", atol=1e-6, inputs=inputs, hint=hint
    )


def test_patchify_of_the_example(student):
    """A 2×4 image has two patches of 2×2.

    Each pixel's second channel comes right after its first channel.
    """
    image = torch.arange(8.0).reshape(1, 1, 2, 4)
    expected = torch.tensor([[[0.0, 1.0, 4.0, 5.0], [2.0, 3.0, 6.0, 7.0]]])
    got = student.einops_reshaping.patchify(image, 2)
    expect.tensor(
        got, expected, of="patchify", inputs="one channel [[0, 1, 2, 3], [4, 5, 6, 7]], patch 2"
    )
    got = student.einops_reshaping.patchify(torch.cat([image, image + 10], dim=1), 2)
    both = torch.stack([expected, expected + 10], dim=-1).flatten(-2)
    expect.tensor(
        got,
        both,
        of="patchify",
        inputs="that image, and itself + 10 as a second channel",
        hint="(p p c)",
    )
