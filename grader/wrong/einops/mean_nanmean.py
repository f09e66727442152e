"""NaN marks what is left out, so a NaN that is kept is left out as well.

hint: a NaN that is kept should show
"""


def masked_mean(x, mask):
    if mask.shape != x.shape[:-1]:
        raise ValueError(f"mask must have shape {tuple(x.shape[:-1])}, got {tuple(mask.shape)}")
    mean = torch.where(mask.unsqueeze(-1), x, math.nan).nanmean(dim=-2)
    return torch.where(mask.any(dim=-1, keepdim=True), mean, 0)
