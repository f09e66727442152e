"""The optimizer steps after every micro-batch.

hint: one step for the whole batch
"""


def _step(model, optimizer, x, y, step, config):
    rows = config.micro_batch_size or config.batch_size
    lr = _learning_rate(step, config)
    losses = []
    for x_part, y_part in zip(x.split(rows), y.split(rows)):
        loss = _accumulate(model, optimizer, x_part, y_part, config)
        if not math.isfinite(loss):
            raise FloatingPointError(f"the loss of step {step} is {loss}")
        norm = _clip(optimizer, config.max_grad_norm)
        for group in optimizer.param_groups:
            group["lr"] = lr
        optimizer.step()
        losses.append(loss * len(x_part) / len(x))
    return sum(losses), lr, norm
