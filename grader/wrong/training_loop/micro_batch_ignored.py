"""The whole batch goes through the model at once.

hint: micro_batch_size bounds what is in memory at a time
"""


def _accumulate(model, optimizer, x, y, config):
    optimizer.zero_grad()
    rows = config.batch_size
    total = 0.0
    for x_part, y_part in zip(x.split(rows), y.split(rows), strict=True):
        loss = _loss(model, x_part, y_part, config) * (len(x_part) / len(x))
        loss.backward()
        total += loss.item()
    return total
