"""Gives einops both sizes so that it checks the shapes; checks only what einops cannot."""

from einops import repeat


def split_heads(x, heads):
    return rearrange(x, "... s (h d) -> ... h s d", h=heads)


def merge_heads(x):
    return rearrange(x, "... h s d -> ... s (h d)")


def attention_scores(q, k):
    d = q.shape[-1]
    k = rearrange(k, "... k (d one) -> ... (k one) d", d=d, one=1)
    return einsum(q / d**0.25, k / d**0.25, "... q d, ... k d -> ... q k")


def per_head_linear(x, w):
    x = rearrange(x, "... (h i) -> ... h i", h=w.shape[0], i=w.shape[1])
    y = einsum(x, w, "... h i, h i o -> ... h o")
    return rearrange(y, "... h o -> ... (h o)")


def masked_mean(x, mask):
    if tuple(mask.shape) != tuple(x.shape)[:-1]:
        raise ValueError(f"the shape of mask is {tuple(mask.shape)}")
    wide = repeat(mask, "... s -> ... s d", d=x.shape[-1])
    total = reduce(x.where(wide, x.new_zeros(())), "... s d -> ... d", "sum")
    return total / reduce(wide.to(x.dtype), "... s d -> ... d", "sum").clamp(min=1)


def patchify(images, patch):
    rows = rearrange(images, "b c (h p) width -> b h p width c", p=patch)
    return rearrange(rows, "b h p (w q) c -> b (h w) (p q c)", q=patch)
