"""The error does not say at which step the loss is no number.

hint: whoever reads it wants to know where to look
"""


def _step(model, optimizer, x, y, step, config):
    loss = _accumulate(model, optimizer, x, y, config)
    if not math.isfinite(loss):
        raise FloatingPointError(f"the loss is {loss}")
    norm = _clip(optimizer, config.max_grad_norm)
    lr = _learning_rate(step, config)
    for group in optimizer.param_groups:
        group["lr"] = lr
    optimizer.step()
    return loss, lr, norm
