"""Positions that are not kept are set to 0 in the caller's tensor.

hint: masked_fill without _ makes a new tensor
"""


def masked_mean(x, mask):
    if mask.shape != x.shape[:-1]:
        raise ValueError(f"mask must have shape {tuple(x.shape[:-1])}, got {tuple(mask.shape)}")
    x.masked_fill_(~mask.unsqueeze(-1), 0)
    return x.sum(dim=-2) / mask.sum(dim=-1, keepdim=True).clamp(min=1)
