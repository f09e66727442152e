"""The mean losses of micro-batches are added up.

hint: the mean over the batch is a weighted sum of the micro-batches' means
"""


def _accumulate(model, optimizer, x, y, config):
    optimizer.zero_grad()
    rows = config.micro_batch_size or config.batch_size
    total = 0.0
    for x_part, y_part in zip(x.split(rows), y.split(rows), strict=True):
        loss = _loss(model, x_part, y_part, config)
        loss.backward()
        total += loss.item()
    return total
