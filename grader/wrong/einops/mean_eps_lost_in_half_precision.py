"""An eps of 1e-8 is added to a count of x's dtype, where float16 has no such number.

hint: the smallest float16 above 0 is 6e-8
"""


def masked_mean(x, mask):
    if mask.shape != x.shape[:-1]:
        raise ValueError(f"mask must have shape {tuple(x.shape[:-1])}, got {tuple(mask.shape)}")
    kept = x.masked_fill(~mask.unsqueeze(-1), 0)
    return kept.sum(dim=-2) / (mask.to(x.dtype).sum(dim=-1, keepdim=True) + 1e-8)
