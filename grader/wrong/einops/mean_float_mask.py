"""The count is a float32 tensor, which makes half precision float32.

hint: mask.to(x.dtype), or a count of integers
"""


def masked_mean(x, mask):
    if mask.shape != x.shape[:-1]:
        raise ValueError(f"mask must have shape {tuple(x.shape[:-1])}, got {tuple(mask.shape)}")
    kept = x.masked_fill(~mask.unsqueeze(-1), 0)
    return kept.sum(dim=-2) / mask.float().sum(dim=-1, keepdim=True).clamp(min=1)
