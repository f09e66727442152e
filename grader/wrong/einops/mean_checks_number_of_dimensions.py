"""Only the mask's number of dimensions is compared, so a size of 1 is stretched.

hint: compare mask.shape with x.shape[:-1]
"""


def masked_mean(x, mask):
    if mask.dim() != x.dim() - 1:
        raise ValueError("mask must have one dimension less than x")
    kept = x.masked_fill(~mask.unsqueeze(-1), 0)
    return kept.sum(dim=-2) / mask.sum(dim=-1, keepdim=True).clamp(min=1)
