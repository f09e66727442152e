"""The number kept is counted over all sequences together.

hint: each sequence has its own number
"""


def masked_mean(x, mask):
    if mask.shape != x.shape[:-1]:
        raise ValueError(f"mask must have shape {tuple(x.shape[:-1])}, got {tuple(mask.shape)}")
    kept = x.masked_fill(~mask.unsqueeze(-1), 0)
    return kept.sum(dim=-2) / (mask.sum().clamp(min=1) / mask[..., 0].numel()).to(x.dtype)
