"""The learning rate is written to the first parameter group alone.

hint: optimizer.param_groups may hold several
"""


def _step(model, optimizer, x, y, step, config):
    loss = _accumulate(model, optimizer, x, y, config)
    if not math.isfinite(loss):
        raise FloatingPointError(f"the loss of step {step} is {loss}")
    norm = _clip(optimizer, config.max_grad_norm)
    lr = _learning_rate(step, config)
    optimizer.param_groups[0]["lr"] = lr
    optimizer.step()
    return loss, lr, norm
