"""The norm is taken when the gradients have been scaled.

is: norm_after_clipping
"""


def _clip(optimizer, max_norm):
    weights = [p for group in optimizer.param_groups for p in group["params"] if p.grad is not None]
    if max_norm is not None:
        nn.utils.clip_grad_norm_(weights, max_norm)
    return math.sqrt(sum(float((p.grad**2).sum()) for p in weights))
