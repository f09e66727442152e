"""The divisor is at least 2, so a single kept position is halved."""


def masked_mean(x, mask):
    if tuple(mask.shape) != tuple(x.shape)[:-1]:
        raise ValueError("mask")
    return torch.where(mask[..., None], x, 0).sum(-2) / mask.sum(-1, keepdim=True).clamp(min=2)
