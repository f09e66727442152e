"""Only a mask that keeps nothing at all is looked after.

hint: one sequence of the batch can be empty alone
"""


def masked_mean(x, mask):
    if mask.shape != x.shape[:-1]:
        raise ValueError(f"mask must have shape {tuple(x.shape[:-1])}, got {tuple(mask.shape)}")
    kept = x.masked_fill(~mask.unsqueeze(-1), 0)
    if not mask.any():
        return kept.sum(dim=-2)
    return kept.sum(dim=-2) / mask.sum(dim=-1, keepdim=True)
