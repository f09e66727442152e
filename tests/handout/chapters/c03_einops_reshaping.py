"""Chapter 3: patterns, heads, masked means and patches."""

import math

import pytest
import torch
from einops import EinopsError, rearrange
from jaxtyping import Float

from grader.solutions.reference import einops_reshaping as er
from grader.solutions.reference import tensor_memory as tm
from handout.site import wren
from tests.handout.page_figures import Figures, n


class Chapter(Figures):
    def beginning(self) -> None:
        self.gives(transpose_code=n("x.transpose(-2, -1)"))
        self.gives(pixel_block=(2, 2))
        features, heads = 10, 4
        with pytest.raises(EinopsError):
            rearrange(torch.ones(features), "(heads d) -> heads d", heads=heads)
        self.gives(features=features, heads=heads)

    def order(self) -> None:
        heads, d = 2, 3
        self.gives(order_heads=heads, order_d=d)
        numbers = torch.arange(heads * d)
        for pattern in ("(heads d)", "(d heads)"):
            self.gives(split_row=rearrange(numbers, f"{pattern} -> heads d", heads=heads))

        x = torch.arange(128 * 512).view(128, 512)
        wanted = er.split_heads(x, 8)
        reshaped = x.reshape(wanted.shape)
        per_head = wanted[0].numel() // x.shape[1]
        assert torch.equal(reshaped[0].reshape(-1), x[:per_head].reshape(-1))
        self.gives(bet_input=x.shape, bet_output=wanted.shape)
        self.gives(bet_code=n(f"x.reshape{tuple(wanted.shape)}"), bet_positions=per_head)

        x = torch.arange(8).view(2, 4)
        self.gives(positions=x.shape[0], position_features=x.shape[1], position_heads=2)
        by_head = torch.zeros(2, 5, 3)
        assert tm.shares_storage(x, er.split_heads(x, 2))
        assert not tm.shares_storage(by_head, er.merge_heads(by_head))

    def story(self) -> None:
        """Zhang (2023), llama.cpp's pull request 3364; head counts from the models' configurations.

        Each key head has an even number of rows: first all first halves of pairs, then the others.
        """

        def reordered(rows, heads):
            return rearrange(rows, "(h half pair) d -> (h pair half) d", h=heads, half=2)

        large, small = (64, 8), (32, 4)
        rows = torch.arange(256 * 2).view(256, 2)  # TinyLlama's key matrix has 256 rows
        wrong, right = (reordered(rows, heads) for heads in (small[0] // small[1], small[1]))
        assert wrong.shape == right.shape
        assert not torch.equal(wrong, right)
        self.gives(story_large=n("Llama 2 70B"), story_large_heads=large[0])
        self.gives(story_large_keys=large[1])
        self.gives(story_agree=(large[0], large[1], large[0] // large[1]))
        self.gives(story_small_heads=small[0], story_small_keys=small[1])
        self.gives(story_differ=(small[0], small[1], small[0] // small[1]), story_year=2023)

    def annotations(self) -> None:
        with pytest.raises(SyntaxError):
            isinstance(torch.ones(2, 3), Float[torch.Tensor, "... (heads d)"])

    def scores(self) -> None:
        generator = torch.Generator().manual_seed(0)
        many, large, small = 2000, 128, 16
        for d in (small, large):
            q, k = (torch.randn(many, 1, d, generator=generator) for _ in range(2))
            scores = er.attention_scores(q, k)
            assert abs(scores.var().item() - 1) < 0.1
            assert abs((q @ k.mT).var().item() / d - 1) < 0.1
        self.gives(large_d=large, typical_score=math.sqrt(large))
        q, k = torch.randn(2, 1024, large, generator=generator)
        sharp = (q @ k.mT).softmax(-1).amax(-1).mean().item()
        soft = er.attention_scores(q, k).softmax(-1).amax(-1).mean().item()
        self.gives(many_keys=len(k), sharp_weight=round(100 * sharp, -1))
        self.gives(soft_weight=math.ceil(100 * soft))
        batch, tokens, heads = 8, 1024, 12
        q = torch.empty(batch, heads, tokens, 64, dtype=torch.bfloat16, device="meta")
        scores = er.attention_scores(q, q)
        self.gives(sequences=batch, tokens=tokens, score_heads=heads, scores=scores.numel())
        self.gives(scores_mb=tm.tensor_bytes(scores) / 1e6)

        q, k = torch.ones(1, 4), torch.ones(1, 1)
        assert torch.einsum("qd,kd->qk", q, k).item() == q.numel()
        with pytest.raises(RuntimeError):
            torch.einsum("qd,kd->qk", q, torch.ones(1, 2))
        self.gives(stretched=k.shape[1], query_features=q.shape[1])
        x = torch.arange(6.0).view(2, 3)
        for wrong in (x[0], x[:1]):
            assert torch.einsum("...s,...s->...", x, wrong).shape == (2,)
        self.gives(mask_rows=len(x[:1]))

    def masks(self) -> None:
        nothing, nan = torch.tensor(0.0), torch.tensor(math.nan)
        assert (nothing / nothing).isnan()
        assert (nothing * nan).isnan()
        self.gives(empty_mean=(nothing.item(), nothing.item()), nothing=nothing.item())

    def examples(self) -> None:
        d = 4
        one = torch.ones(1, d)
        self.gives(one_score=((one @ one.T).item(), d, er.attention_scores(one, one).item()))
        x, w = torch.tensor([3.0, 5.0]), torch.tensor([10.0, 100.0]).view(2, 1, 1)
        self.gives(head_inputs=x, head_matrix=w.shape[1:], first_weight=w[0].item())
        self.gives(second_weight=w[1].item(), head_outputs=er.per_head_linear(x, w))
        x, mask = torch.tensor([1.0, 3.0, 5.0]), torch.tensor([True, False, True])
        kept = x[mask].sum().item()
        self.gives(masked_x=x, mask=mask.long())
        self.gives(masked_mean=(kept, int(mask.sum()), er.masked_mean(x[:, None], mask).item()))
        self.gives(wrong_mean=(kept, len(x), kept / len(x)))
        image, side = torch.arange(8).view(1, 1, 2, 4), 2
        first, second = er.patchify(image, side)[0]
        self.gives(small_image=(image.shape[2], image.shape[3]), first_number=image.min().item())
        self.gives(small_patch=(side, side), first_patch=first, second_patch=second)
        patches = er.patchify(torch.empty(1, 3, 224, 224, device="meta"), 16)
        self.gives(image=(224, 224), channels=3, patches=patches.shape[1], patch=(16, 16))
        self.gives(patch_numbers=patches.shape[2])

    def model(self) -> None:
        config = wren.WREN
        width = wren.HEAD_WIDTH
        shape = wren.MICRO_BATCH, config.num_heads, config.context_length, width
        q = torch.empty(shape, dtype=torch.bfloat16, device="meta")
        scores = er.attention_scores(q, q)
        together = config.num_layers * tm.tensor_bytes(scores)
        assert together > 4 * wren.PARAMETERS, "more than the weights"
        self.gives(wren_head=width, wren_scores=scores.numel())
        self.gives(wren_scores_mb=tm.tensor_bytes(scores) / 1e6, wren_scores_gb=together / 1e9)

    def exercises(self) -> None:
        x = torch.zeros(2, 5, 12)
        patterns = ("b s (h d) -> b s h d", "b s (h d) -> b h s d", "b s (h d) -> b (h s) d")
        assert [tm.shares_storage(x, rearrange(x, p, h=3)) for p in patterns] == [1, 1, 0]

        features, heads, feature = 12, 3, 5
        d = features // heads
        rows = rearrange(torch.arange(features), "(d heads) -> heads d", heads=heads).tolist()
        self.gives(ex_feature=feature, ex_features=features, ex_heads=heads, ex_d=d)
        self.gives(ex_first=(feature, feature // d, d, feature % d))
        self.gives(ex_second=(feature, feature // heads, heads, feature % heads))
        self.gives(ex_second_head=[feature in row for row in rows].index(True))
        x = torch.tensor([[1.0, 2.0, 3.0, 0.0], [6.0, 0.0, 0.0, 0.0]])
        mask = torch.tensor([[1, 1, 1, 0], [1, 0, 0, 0]]).bool()
        a, b = er.masked_mean(x[..., None], mask).flatten().tolist()
        kept_a, kept_b = mask.sum(1).tolist()
        self.gives(ex_mean_a=a, ex_kept_a=kept_a, ex_mean_b=b, ex_kept_b=kept_b)
        self.gives(ex_wrong_mean=(a + b) / 2)
        self.gives(ex_right_mean=(kept_a, a, kept_b, b, kept_a + kept_b, x[mask].mean()))
        target = torch.randn(1000, generator=torch.Generator().manual_seed(0))
        pairs = target[:, None] - target
        self.gives(ex_pairs=pairs.numel() // len(target), ex_variances=(pairs**2).mean().item())
        assert math.isclose((pairs**2).mean(), 2 * target.var(correction=0), rel_tol=1e-4)
