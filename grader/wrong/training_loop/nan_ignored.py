"""A loss that is no finite number is stepped with.

hint: math.isfinite(loss)
"""


def _step(model, optimizer, x, y, step, config):
    loss = _accumulate(model, optimizer, x, y, config)
    norm = _clip(optimizer, config.max_grad_norm)
    lr = _learning_rate(step, config)
    for group in optimizer.param_groups:
        group["lr"] = lr
    optimizer.step()
    return loss, lr, norm
