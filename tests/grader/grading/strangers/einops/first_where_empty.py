"""Where nothing is kept the first position is the result."""


def masked_mean(x, mask):
    if tuple(mask.shape) != tuple(x.shape)[:-1]:
        raise ValueError("mask")
    n = mask.sum(-1, keepdim=True)
    mean = x.masked_fill(~mask.unsqueeze(-1), 0.0).sum(-2) / n.clamp_min(1)
    return torch.where(n > 0, mean, x[..., 0, :])
