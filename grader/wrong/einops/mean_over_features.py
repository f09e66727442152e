"""The mean goes over the features of each position as well.

hint: d stays
"""


def masked_mean(x, mask):
    if mask.shape != x.shape[:-1]:
        raise ValueError(f"mask must have shape {tuple(x.shape[:-1])}, got {tuple(mask.shape)}")
    kept = x.masked_fill(~mask.unsqueeze(-1), 0)
    return kept.sum(dim=-2).mean(dim=-1, keepdim=True).expand(*x.shape[:-2], x.shape[-1]) / mask.sum(
        dim=-1, keepdim=True
    ).clamp(min=1)
