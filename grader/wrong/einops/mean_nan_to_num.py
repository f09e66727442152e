"""NaN and infinities are replaced wherever they stand, and then multiplied by the mask.

hint: a NaN that is kept should show
"""


def masked_mean(x, mask):
    if mask.shape != x.shape[:-1]:
        raise ValueError(f"mask must have shape {tuple(x.shape[:-1])}, got {tuple(mask.shape)}")
    kept = torch.nan_to_num(x) * mask.unsqueeze(-1)
    return kept.sum(dim=-2) / mask.sum(dim=-1, keepdim=True).clamp(min=1)
