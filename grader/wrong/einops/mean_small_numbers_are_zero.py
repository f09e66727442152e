"""Numbers below 1e-6 are taken for padding.

hint: only the mask says which positions count
"""


def masked_mean(x, mask):
    if mask.shape != x.shape[:-1]:
        raise ValueError(f"mask must have shape {tuple(x.shape[:-1])}, got {tuple(mask.shape)}")
    kept = torch.where(mask.unsqueeze(-1) & (x.abs() > 1e-6), x, 0)
    return kept.sum(dim=-2) / mask.sum(dim=-1, keepdim=True).clamp(min=1)
