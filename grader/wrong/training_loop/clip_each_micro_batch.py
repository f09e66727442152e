"""What has been accumulated is clipped after every micro-batch.

hint: clip once, after the last backward of the step
"""


def _accumulate(model, optimizer, x, y, config):
    optimizer.zero_grad()
    rows = config.micro_batch_size or config.batch_size
    total = 0.0
    for x_part, y_part in zip(x.split(rows), y.split(rows), strict=True):
        loss = _loss(model, x_part, y_part, config) * (len(x_part) / len(x))
        loss.backward()
        _clip(optimizer, config.max_grad_norm)
        total += loss.item()
    return total
