"""Without max_grad_norm gradients are clipped to 1.

hint: None means that they stay as they are
"""


def _clip(optimizer, max_norm):
    parameters = [p for group in optimizer.param_groups for p in group["params"]]
    return nn.utils.clip_grad_norm_(parameters, max_norm or 1.0).item()
