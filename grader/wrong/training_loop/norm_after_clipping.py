"""The norm that is reported is the one after clipping.

hint: measure it before the gradients are scaled
"""


def _clip(optimizer, max_norm):
    parameters = [p for group in optimizer.param_groups for p in group["params"]]
    nn.utils.clip_grad_norm_(parameters, math.inf if max_norm is None else max_norm)
    return nn.utils.clip_grad_norm_(parameters, math.inf).item()
