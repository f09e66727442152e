"""Each entry of a gradient is clamped to ±1, where the norm is meant to be limited.

hint: clip_grad_norm_ keeps a gradient's direction, clip_grad_value_ does not
"""


def _clip(optimizer, max_norm):
    parameters = [p for group in optimizer.param_groups for p in group["params"]]
    norm = nn.utils.clip_grad_norm_(parameters, math.inf if max_norm is None else max_norm).item()
    nn.utils.clip_grad_value_(parameters, 1.0)
    return norm
