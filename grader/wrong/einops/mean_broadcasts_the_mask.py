"""A mask of another shape is broadcast.

hint: compare mask.shape with x.shape[:-1]
"""


def masked_mean(x, mask):
    kept = x.masked_fill(~mask.unsqueeze(-1), 0)
    return kept.sum(dim=-2) / mask.sum(dim=-1, keepdim=True).clamp(min=1)
