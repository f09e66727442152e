"""The learning rate is written to the optimizer after it has stepped.

hint: set it before optimizer.step()
"""


def _step(model, optimizer, x, y, step, config):
    loss = _accumulate(model, optimizer, x, y, config)
    if not math.isfinite(loss):
        raise FloatingPointError(f"the loss of step {step} is {loss}")
    norm = _clip(optimizer, config.max_grad_norm)
    optimizer.step()
    lr = _learning_rate(step, config)
    for group in optimizer.param_groups:
        group["lr"] = lr
    return loss, lr, norm
