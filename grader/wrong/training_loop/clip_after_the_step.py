"""Gradients are clipped after the optimizer has stepped.

hint: between backward and optimizer.step()
"""


def _step(model, optimizer, x, y, step, config):
    loss = _accumulate(model, optimizer, x, y, config)
    if not math.isfinite(loss):
        raise FloatingPointError(f"the loss of step {step} is {loss}")
    lr = _learning_rate(step, config)
    for group in optimizer.param_groups:
        group["lr"] = lr
    optimizer.step()
    norm = _clip(optimizer, config.max_grad_norm)
    return loss, lr, norm
