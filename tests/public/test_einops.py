"""einops: splitting and merging axes, products and means over named axes. Handout §3.1."""

import itertools
from functools import partial

import pytest
import torch

from kit import expect


def test_split_heads_of_the_example(student):
    """Each position's first half goes to head 0, its second half to head 1."""
    x = torch.tensor([[1.0, 2.0, 3.0, 4.0], [5.0, 6.0, 7.0, 8.0]])
    expected = torch.tensor([[[1.0, 2.0], [5.0, 6.0]], [[3.0, 4.0], [7.0, 8.0]]])
    got = student.einops_reshaping.split_heads(x, 2)
    hints = [
        (x.reshape(2, 2, 2).permute(2, 0, 1), "the features are (heads d), not (d heads)"),
        (x.reshape(2, 2, 2), "the heads come before the positions: a reshape alone moves nothing"),
    ]
    inputs = "x [[1, 2, 3, 4], [5, 6, 7, 8]], heads 2"
    expect.tensor(got, expected, of="split_heads", inputs=inputs, hints=hints)
    refusals, when = (ValueError, RuntimeError), "heads does not divide the last dimension"
    with expect.raises(refusals, of="split_heads", when=when):
        student.einops_reshaping.split_heads(x, 3)


def test_merge_heads_of_the_example(student):
    """Two heads are put side by side again, here with a batch dimension in front."""
    x = torch.tensor([[[[1.0, 2.0], [5.0, 6.0]], [[3.0, 4.0], [7.0, 8.0]]]])
    expected = torch.tensor([[[1.0, 2.0, 3.0, 4.0], [5.0, 6.0, 7.0, 8.0]]])
    got = student.einops_reshaping.merge_heads(x)
    hints = [
        (x.permute(0, 2, 3, 1).reshape(1, 2, 4), "the features are (heads d), not (d heads)"),
        (x.reshape(1, 2, 4), "a reshape alone does not move the heads behind the positions"),
    ]
    inputs = "heads [[1, 2], [5, 6]] and [[3, 4], [7, 8]]"
    expect.tensor(got, expected, of="merge_heads", inputs=inputs, hints=hints)


def test_attention_scores_of_the_example(student):
    """A query and a key of four ones: 4 / √4 = 2. Keys that are orthogonal to the query: 0."""
    q = torch.ones(1, 4)
    k = torch.tensor([[1.0, 1.0, 1.0, 1.0], [1.0, -1.0, 1.0, -1.0], [1.0, 1.0, -1.0, -1.0]])
    got = student.einops_reshaping.attention_scores(q, k)
    want = torch.tensor([[2.0, 0.0, 0.0]])
    inputs = "q four ones; k four ones, and two like [1, -1, 1, -1]"
    hints = [
        (2 * want, "is the product divided by √d?"),
        (want / 2, "divide by √d once, and not by d"),
        (4 * want, "divide by √d, and do not multiply by it"),
        (2 / 3**0.5 * want, "d is the length of a query, not the number of keys"),
        (want.T, "queries are rows, and keys are columns"),
        (want.softmax(-1), "the scores are those before the softmax"),
    ]
    expect.tensor(got, want, of="attention_scores", atol=1e-6, inputs=inputs, hints=hints)


def test_per_head_linear_of_the_example(student):
    """Head 0 multiplies by 10 and head 1 by 100."""
    x, w = torch.tensor([3.0, 5.0]), torch.tensor([[[10.0]], [[100.0]]])
    got = student.einops_reshaping.per_head_linear(x, w)
    hints = [
        (torch.tensor([30.0, 50.0]), "each head has its own matrix"),
        (torch.tensor([300.0, 50.0]), "head 0 has the first matrix"),
    ]
    want, inputs = torch.tensor([30.0, 500.0]), "x [3, 5], w 10 and 100"
    expect.tensor(got, want, of="per_head_linear", inputs=inputs, hints=hints)


def test_masked_mean_of_the_example(student):
    """The mean of the first and the third position; zeros where the mask keeps none."""
    x = torch.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
    mask = torch.tensor([[True, False, True], [False, False, False]])
    got = student.einops_reshaping.masked_mean(x.expand(2, 3, 2), mask)
    expected = torch.tensor([[3.0, 4.0], [0.0, 0.0]])
    hints = [
        (2 * expected, "this is the sum: divide by the number of positions that are kept"),
        (expected * 2 / 3, "divide by the number of positions that are kept, here 2"),
        (torch.tensor([[3.0, 4.0], [3.0, 4.0]]), "True marks a position that is kept"),
        (torch.tensor([[3.0, 4.0], [1.0, 2.0]]), "where the mask keeps none, the result is 0"),
        (torch.tensor([[3.5, 3.5], [0.0, 0.0]]), "the mean is over positions, not over features"),
    ]
    nothing = "where the mask keeps no position, 0 is divided by 0"
    is_nan = isinstance(got, torch.Tensor) and bool(got[..., 1, :].isnan().all())
    inputs = "x [[1, 2], [3, 4], [5, 6]], masks (True, False, True) and (False, False, False)"
    hint = nothing if is_nan else None
    expect.tensor(got, expected, of="masked_mean", atol=1e-6, inputs=inputs, hint=hint, hints=hints)


def test_masked_mean_of_padding_that_is_nan(student):
    """Padding that is NaN does not change the mean of the positions that are kept."""
    x = torch.tensor([[1.0, 2.0], [float("nan"), float("nan")], [5.0, 6.0]])
    inputs, hint = "x [[1, 2], [nan, nan], [5, 6]], mask (True, False, True)", "0 · NaN is NaN"
    got = student.einops_reshaping.masked_mean(x, torch.tensor([True, False, True]))
    want = torch.tensor([3.0, 4.0])
    expect.tensor(got, want, of="masked_mean", atol=1e-6, inputs=inputs, hint=hint)


def test_patchify_of_the_example(student):
    """A 2×4 image has two patches of 2×2.

    Each pixel's second channel comes right after its first channel.
    """
    image = torch.arange(8.0).reshape(1, 1, 2, 4)
    expected = torch.tensor([[[0.0, 1.0, 4.0, 5.0], [2.0, 3.0, 6.0, 7.0]]])
    got = student.einops_reshaping.patchify(image, 2)
    hints = [
        (image.reshape(1, 2, 4), "a reshape alone leaves the pixels in rows of the image"),
        (expected.reshape(1, 2, 2, 2).mT.reshape(1, 2, 4), "the pixels of a patch go row by row"),
        (
            torch.tensor([[[0.0, 2.0, 4.0, 6.0], [1.0, 3.0, 5.0, 7.0]]]),
            "a patch is a block of neighbours, not every second pixel",
        ),
    ]
    inputs = "one channel [[0, 1, 2, 3], [4, 5, 6, 7]], patch 2"
    expect.tensor(got, expected, of="patchify", inputs=inputs, hints=hints)
    got = student.einops_reshaping.patchify(torch.cat([image, image + 10], dim=1), 2)
    both = torch.stack([expected, expected + 10], dim=-1).flatten(-2)
    inputs = "that image, and itself + 10 as a second channel"
    hints = [(torch.cat([expected, expected + 10], -1), "the features are (p p c)")]
    expect.tensor(got, both, of="patchify", inputs=inputs, hints=hints)


def drawn(first, *others, seed=0):
    """Float64 numbers, as a view whose first dimension is the last one in memory."""
    source = torch.Generator().manual_seed(seed)
    x = torch.randn(*others, first, generator=source, dtype=torch.float64)
    return x.movedim(-1, 0)


def agrees(got, want, **more):
    """Check two tensors entry by entry, up to rounding in float32."""
    expect.tensor(got, want, atol=1e-5, rtol=1e-5, **more)


def by_index(entry, *sizes):
    """A tensor whose last dimensions are filled by a definition, one index after the other."""
    if not sizes:
        return entry()
    parts = [by_index(partial(entry, i), *sizes[1:]) for i in range(sizes[0])]
    return torch.stack(parts, -len(sizes))


def check_gradients(got, want, leaves, *, of):
    """Check that the answer has a graph, with the gradients of the definition."""
    expect.that(got.requires_grad, "the result has no graph", of=of)
    upstream = drawn(*want.shape, seed=9)
    gradients = torch.autograd.grad(want, leaves, upstream)
    for mine, theirs in zip(torch.autograd.grad(got, leaves, upstream), gradients, strict=True):
        agrees(mine, theirs, of=of, name="the gradient")


@pytest.mark.parametrize("leading", [(), (2,), (2, 3)])
def test_split_and_merge_follow_their_definitions(student, leading):
    """result[..., h, s, i] = x[..., s, h·d + i], and back; also for views, with a gradient."""
    heads, d = 3, 4
    x = drawn(*leading, 5, heads * d).requires_grad_()
    want = by_index(lambda h, s, i: x[..., s, h * d + i], heads, 5, d)
    got = student.einops_reshaping.split_heads(x, heads=heads)
    expect.tensor(got.detach(), want.detach(), of="split_heads", inputs=f"x {list(x.shape)}")
    check_gradients(got, want, [x], of="split_heads")
    parts = want.detach().mT.contiguous().mT.requires_grad_()
    back = student.einops_reshaping.merge_heads(parts)
    expect.tensor(back.detach(), x.detach(), of="merge_heads", inputs=f"x {list(parts.shape)}")
    expect.that(back.requires_grad, "the result has no graph", of="merge_heads")


@pytest.mark.parametrize("leading", [(), (2,), (2, 3)])
def test_attention_scores_follow_their_definition(student, leading):
    """Σ_c q[..., i, c] · k[..., j, c] / √d: any leading dimensions, with both gradients.

    The arguments stay as they are.
    """
    q, k = drawn(*leading, 3, 4).requires_grad_(), drawn(*leading, 5, 4, seed=1).requires_grad_()
    before = q.detach().clone()
    want = by_index(lambda i, j: (q[..., i, :] * k[..., j, :]).sum(-1) / 2, 3, 5)
    got = student.einops_reshaping.attention_scores(q, k)
    agrees(got.detach(), want.detach(), of="attention_scores", inputs=f"leading {leading}")
    check_gradients(got, want, [q, k], of="attention_scores")
    with torch.no_grad():
        student.einops_reshaping.attention_scores(q, k)
    expect.tensor(q.detach(), before, of="attention_scores", name="q after the call")


@pytest.mark.parametrize("leading", [(), (2,), (2, 5)])
def test_per_head_linear_follows_its_definition(student, leading):
    """Two heads of d_in 3 and d_out 4: Σ_i x[..., h·d_in + i] · w[h, i, o]."""
    x, w = drawn(*leading, 6).requires_grad_(), drawn(2, 3, 4, seed=1).requires_grad_()
    terms = by_index(lambda h, o, i: x[..., h * 3 + i] * w[h, i, o], 2, 4, 3)
    got = student.einops_reshaping.per_head_linear(x, w)
    want = terms.sum(-1).flatten(-2)
    agrees(got.detach(), want.detach(), of="per_head_linear", inputs=f"x {list(x.shape)}")
    check_gradients(got, want, [x, w], of="per_head_linear")


@pytest.mark.parametrize(("features", "d_in"), [(5, 3), (8, 3), (12, 3)])
def test_per_head_linear_refuses_another_width(student, features, d_in):
    """Two heads of d_in features need 2 · d_in of them."""
    with expect.raises((ValueError, RuntimeError), of="per_head_linear", when="x does not fit w"):
        student.einops_reshaping.per_head_linear(torch.ones(7, features), torch.ones(2, d_in, 4))


def test_masked_mean_follows_its_definition(student):
    """Different counts, and NaN and infinity where the mask is False."""
    x = drawn(2, 3, 5, 4)
    mask = torch.rand(2, 3, 5, generator=torch.Generator().manual_seed(0)) < 0.6
    mask[0, 0] = torch.tensor([True, False, False, False, False])
    want = torch.stack(
        [x[i, j][mask[i, j]].sum(0) / max(1, mask[i, j].sum()) for i in range(2) for j in range(3)]
    ).reshape(2, 3, 4)
    x = x.clone()
    x[~mask] = torch.tensor([float("nan"), float("inf"), -float("inf"), 1.0], dtype=x.dtype)
    got = student.einops_reshaping.masked_mean(x, mask=mask)
    agrees(got, want, of="masked_mean")


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_results_keep_the_dtype(student, dtype):
    """Half precision stays half precision, also where the mask keeps nothing."""
    x, made = torch.ones(2, 4, dtype=dtype), student.einops_reshaping
    answers = {
        "split_heads": made.split_heads(x, 2),
        "merge_heads": made.merge_heads(x[None]),
        "attention_scores": made.attention_scores(x, x),
        "per_head_linear": made.per_head_linear(x, torch.ones(2, 2, 3, dtype=dtype)),
        "masked_mean": made.masked_mean(x[None], torch.zeros(1, 2, dtype=torch.bool)),
        "patchify": made.patchify(x[None, None], 2),
    }
    for of, got in answers.items():
        expect.value(got.dtype, dtype, of=of, name="the dtype of the result")
        expect.that(got.isfinite().all().item(), "the result is not finite", of=of)


@pytest.mark.parametrize("shape", [(4,), (1, 4), (2, 1), (3, 4)])
def test_masked_mean_refuses_another_mask(student, shape):
    """x has shape [2, 4, 3], so the mask must have shape [2, 4]."""
    refusals, mask = (ValueError, RuntimeError, IndexError), torch.ones(shape, dtype=torch.bool)
    with expect.raises(refusals, of="masked_mean", when="the mask does not fit"):
        student.einops_reshaping.masked_mean(torch.ones(2, 4, 3), mask)


def test_patchify_follows_its_definition(student):
    """Two images of three channels, 4 × 6 pixels, patches of 2: two rows of three patches."""
    images = drawn(2, 3, 4, 6).requires_grad_()
    places = itertools.product(*map(range, (2, 2, 3, 2, 2, 3)))
    pixels = [images[b, k, i * 2 + r, j * 2 + s] for b, i, j, r, s, k in places]
    want = torch.stack(pixels).reshape(2, 6, 12)
    got = student.einops_reshaping.patchify(images, 2)
    expect.tensor(got.detach(), want.detach(), of="patchify", inputs="images [2, 3, 4, 6], patch 2")
    check_gradients(got, want, [images], of="patchify")


@pytest.mark.parametrize("size", [(5, 4), (4, 5)])
def test_patchify_refuses_a_border(student, size):
    """A patch of 2 does not fill 5 rows or columns."""
    with expect.raises((ValueError, RuntimeError), of="patchify", when="a border is left"):
        student.einops_reshaping.patchify(torch.ones(1, 1, *size), 2)


def test_patchify_of_a_tall_image(student):
    """8 × 4 pixels in patches of two: patch number 4 is the first of the third row."""
    got = student.einops_reshaping.patchify(torch.arange(32.0).reshape(1, 1, 8, 4), 2)
    want = torch.tensor([16.0, 17.0, 20.0, 21.0])
    expect.tensor(got[0, 4], want, of="patchify", inputs="8 × 4 pixels, patch 2, patch number 4")
