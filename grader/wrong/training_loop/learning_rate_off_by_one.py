"""Step s has the learning rate of step s + 1.

hint: the first step of a warm-up has learning rate 0
"""


def _step(model, optimizer, x, y, step, config):
    loss = _accumulate(model, optimizer, x, y, config)
    if not math.isfinite(loss):
        raise FloatingPointError(f"the loss of step {step} is {loss}")
    norm = _clip(optimizer, config.max_grad_norm)
    lr = _learning_rate(step + 1, config)
    for group in optimizer.param_groups:
        group["lr"] = lr
    optimizer.step()
    return loss, lr, norm
