"""Gradients are cleared after a step, so what stood there before the first one counts.

hint: clear them before the first backward of a step
"""


def _accumulate(model, optimizer, x, y, config):
    rows = config.micro_batch_size or config.batch_size
    total = 0.0
    for x_part, y_part in zip(x.split(rows), y.split(rows), strict=True):
        loss = _loss(model, x_part, y_part, config) * (len(x_part) / len(x))
        loss.backward()
        total += loss.item()
    return total


def _step(model, optimizer, x, y, step, config):
    loss = _accumulate(model, optimizer, x, y, config)
    if not math.isfinite(loss):
        raise FloatingPointError(f"the loss of step {step} is {loss}")
    norm = _clip(optimizer, config.max_grad_norm)
    lr = _learning_rate(step, config)
    for group in optimizer.param_groups:
        group["lr"] = lr
    optimizer.step()
    optimizer.zero_grad()
    return loss, lr, norm
