"""Where nothing is kept 0 is divided by 0.

hint: what is 0 divided by 0?
"""


def masked_mean(x, mask):
    if mask.shape != x.shape[:-1]:
        raise ValueError(f"mask must have shape {tuple(x.shape[:-1])}, got {tuple(mask.shape)}")
    kept = x.masked_fill(~mask.unsqueeze(-1), 0)
    return kept.sum(dim=-2) / mask.sum(dim=-1, keepdim=True)
