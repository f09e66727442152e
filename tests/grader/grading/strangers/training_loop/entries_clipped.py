"""Each entry of a gradient is cut off at the limit, and the norm is left as it comes out."""


def _clip(optimizer, max_norm):
    weights = [p for group in optimizer.param_groups for p in group["params"] if p.grad is not None]
    norm = torch.stack([p.grad.norm() for p in weights]).norm()
    if max_norm is not None:
        for p in weights:
            p.grad.clamp_(-max_norm, max_norm)
    return norm.item()
