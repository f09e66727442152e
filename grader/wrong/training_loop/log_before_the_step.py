"""A step that is not taken is logged all the same.

hint: the line is written after the optimizer has stepped
"""


def _step(model, optimizer, x, y, step, config):
    loss = _accumulate(model, optimizer, x, y, config)
    if not math.isfinite(loss):
        if config.log_path is not None:
            _log(config.log_path, {"step": step, "loss": loss, "lr": _learning_rate(step, config), "grad_norm": None})
        raise FloatingPointError(f"the loss of step {step} is {loss}")
    norm = _clip(optimizer, config.max_grad_norm)
    lr = _learning_rate(step, config)
    for group in optimizer.param_groups:
        group["lr"] = lr
    optimizer.step()
    return loss, lr, norm
