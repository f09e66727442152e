"""x is multiplied by the mask, so padding that is NaN makes everything NaN.

hint: 0 · NaN is NaN
"""


def masked_mean(x, mask):
    if mask.shape != x.shape[:-1]:
        raise ValueError(f"mask must have shape {tuple(x.shape[:-1])}, got {tuple(mask.shape)}")
    kept = x * mask.unsqueeze(-1)
    return kept.sum(dim=-2) / mask.sum(dim=-1, keepdim=True).clamp(min=1)
