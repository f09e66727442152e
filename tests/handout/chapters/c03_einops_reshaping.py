"""Chapter 3: patterns, heads, masked means and patches."""

import math

import pytest
import torch
from einops import EinopsError, rearrange

from grader.reference import einops_reshaping as er
from grader.reference import tensor_memory as tm
from tests.handout.claims import Claims, n, plain, section, short


def listed(tensor, brackets="[]"):
    """A vector as a figure, such as [0, 1, 4]."""
    return n(brackets[0] + ", ".join(f"{value:g}" for value in tensor.tolist()) + brackets[1])


def spaced(tensor):
    """A vector's elements side by side, as a figure."""
    return n(" ".join(str(value) for value in tensor.tolist()))


class Chapter(Claims):
    """Every figure of the page."""

    def __init__(self) -> None:
        super().__init__("03_einops_reshaping.md")
        self.says(f"`{n('x.transpose(-2, -1)')}` is right until", f"such as {n(-2)} says nothing")
        block = 2
        assert er.downsample(torch.ones(block, 2 * block), block).shape == (1, 2)
        self.says(f"the mean of each {n(block)} × {n(block)} block of pixels")
        features, heads = 10, 4
        with pytest.raises(EinopsError):
            rearrange(torch.ones(features), "(heads d) -> heads d", heads=heads)
        self.says(f"{n(features)} features do not become {n(heads)} heads")
        self.order()
        self.scores()
        self.masks()
        self.examples()

    def order(self) -> None:
        """Parentheses, transposes and copies."""
        heads, d = 2, 3
        self.says(f"([§{section('storage_views')}]({n('01')}_tensor_memory.md))")
        self.says(f"With {n(heads)} heads of d = {n(d)}, six features", f"| head {n(0)} | head {n(1)} |")
        numbers = torch.arange(heads * d)
        for pattern in ("(heads d)", "(d heads)"):
            first, second = rearrange(numbers, f"{pattern} -> heads d", heads=heads)
            self.says(f"| `{pattern}` | {spaced(first)} | {spaced(second)} |")
        (split,) = er.split_heads(numbers[None], heads).transpose(0, 1)
        assert split.tolist() == [[h * d + i for i in range(d)] for h in range(heads)]
        other = rearrange(numbers, "(d heads) -> heads d", heads=heads)
        assert other.tolist() == [[i * heads + h for i in range(d)] for h in range(heads)]

        x = torch.arange(8).view(2, 4)
        assert not torch.equal(er.split_heads(x, 2), x.reshape(2, 2, 2))
        self.says(f"Here are {n(x.shape[0])} positions of {n(x.shape[1])} features and {n(2)} heads.")
        by_head = torch.zeros(2, 5, 3)
        assert tm.shares_storage(x, er.split_heads(x, 2))
        assert not tm.shares_storage(by_head, er.merge_heads(by_head))

    def scores(self) -> None:
        """Variance, memory, einsum's stretching."""
        generator = torch.Generator().manual_seed(0)
        many, large, small = 2000, 128, 16
        for d in (small, large):
            q, k = (torch.randn(many, 1, d, generator=generator) for _ in range(2))
            scores = er.attention_scores(q, k)
            assert abs(scores.var().item() - 1) < 0.1
            assert abs((q @ k.mT).var().item() / d - 1) < 0.1
        self.says(
            f"independent with mean {n(0)} and variance {n(1)}, then q · k is a sum of d terms of variance {n(1)} and has variance d. So it grows with d, and for d = {n(large)} "
            f"a typical score is {n(math.sqrt(large), '.1f')} above or below {n(0)}: softmax",
            f"has variance {n(1)} for every d, and the softmax behind it is as sharp for d = {n(large)} as for d = {n(small)}.",
        )
        batch, tokens, heads = 8, 1024, 12
        q = torch.empty(batch, heads, tokens, 64, dtype=torch.bfloat16, device="meta")
        scores = er.attention_scores(q, q)
        assert er.attention_scores(q[..., : tokens // 2, :], q[..., : tokens // 2, :]).numel() * 4 == scores.numel()
        self.says(
            f"{n(batch)} sequences of {n(tokens, ',')} tokens and {n(heads)} heads make {short(scores.numel(), 1, 6)} of them, {n(tm.tensor_bytes(scores) / 1e6, '.0f')} MB in bfloat16"
        )
        self.says(f"([chapter {section('Counting FLOPs')}]({n('04')}_flop_counting.md) counts it)")

        q, k = torch.ones(1, 4), torch.ones(1, 1)
        assert torch.einsum("qd,kd->qk", q, k).item() == q.numel()
        with pytest.raises(ValueError, match="last dimension"):
            er.attention_scores(q, k)
        with pytest.raises(RuntimeError):
            torch.einsum("qd,kd->qk", q, torch.ones(1, 2))
        self.says(
            f"*except* where one of them is {n(k.shape[1])}: then",
            f"a key with {n(k.shape[1])} feature meets a query with {n(q.shape[1])}.",
        )
        x = torch.arange(6.0).view(2, 3)
        for wrong in (x[0], x[:1]):
            assert torch.einsum("...s,...s->...", x, wrong).shape == (2,)
        self.says(f"a mask of shape (seq,) or ({n(len(x[:1]))}, seq) is accepted")

    def masks(self) -> None:
        """What breaks a mean."""
        nothing, nan = torch.tensor(0.0), torch.tensor(math.nan)
        assert (nothing / nothing).isnan()
        assert (nothing * nan).isnan()
        x, mask = torch.tensor([[math.nan], [1.0]]), torch.tensor([False, True])
        assert er.masked_mean(x, mask) == 1
        assert er.masked_mean(x, ~mask & False) == 0
        self.says(
            f"Nothing is kept: {plain(nothing.item())} / {plain(nothing.item())} is NaN, and the divisor must not be {plain(0)}.",
            f"infinite: {plain(nothing.item())} · NaN is NaN, so",
            f"not multiplied by {plain(nothing.item())}.",
        )

    def examples(self) -> None:
        """The worked example."""
        d = 4
        one = torch.ones(1, d)
        self.says(
            f"A query and a key of four ones have the score {plain((one @ one.T).item())} / √{n(d)} = {plain(er.attention_scores(one, one).item())}."
        )
        x, w = torch.tensor([3.0, 5.0]), torch.tensor([10.0, 100.0]).view(2, 1, 1)
        heads, d_in, d_out = w.shape
        assert heads == len(x)
        self.says(
            f"x = {listed(x, '()')} and the {n(d_in)} × {n(d_out)} matrices {plain(w[0].item())} and {plain(w[1].item())} give {listed(er.per_head_linear(x, w), '()')}."
        )
        x, mask = torch.tensor([1.0, 3.0, 5.0]), torch.tensor([True, False, True])
        kept = x[mask].sum().item()
        self.says(
            f"{listed(x)} with the mask {listed(mask.long(), '()')} has the mean {plain(kept)} / {n(int(mask.sum()))} = {plain(er.masked_mean(x[:, None], mask).item())}, "
            f"not {plain(kept)} / {n(len(x))} = {plain(kept / len(x))}."
        )
        image, side = torch.arange(8).view(1, 1, 2, 4), 2
        first, second = er.patchify(image, side)[0]
        self.says(
            f"A {n(image.shape[2])} × {n(image.shape[3])} image with one channel, numbered row by row from {n(image.min().item())}, has the two {n(side)} × {n(side)} patches "
            f"{listed(first)} and {listed(second)}."
        )
        image, side = torch.empty(1, 3, 224, 224, device="meta"), 16
        _, channels, height, width = image.shape
        _, patches, size = er.patchify(image, side).shape
        self.says(
            f"An image of {n(height)} × {n(width)} with {n(channels)} channels has {n(patches)} patches of {n(side)} × {n(side)}, each of {n(size)} numbers."
        )
