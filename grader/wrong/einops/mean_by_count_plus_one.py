"""One is added to the number kept, so that it is never 0.

hint: clamp(min=1) changes 0 alone
"""


def masked_mean(x, mask):
    if mask.shape != x.shape[:-1]:
        raise ValueError(f"mask must have shape {tuple(x.shape[:-1])}, got {tuple(mask.shape)}")
    kept = x.masked_fill(~mask.unsqueeze(-1), 0)
    return kept.sum(dim=-2) / (mask.sum(dim=-1, keepdim=True) + 1)
