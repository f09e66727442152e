"""The loss that is reported is the last micro-batch's.

hint: the mean over the whole batch
"""


def _accumulate(model, optimizer, x, y, config):
    optimizer.zero_grad()
    rows = config.micro_batch_size or config.batch_size
    total = 0.0
    for x_part, y_part in zip(x.split(rows), y.split(rows), strict=True):
        loss = _loss(model, x_part, y_part, config)
        (loss * (len(x_part) / len(x))).backward()
        total = loss.item()
    return total
