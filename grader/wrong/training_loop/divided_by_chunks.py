"""Each micro-batch counts the same, also a short last one.

hint: a micro-batch counts by its windows
"""


def _accumulate(model, optimizer, x, y, config):
    optimizer.zero_grad()
    rows = config.micro_batch_size or config.batch_size
    total = 0.0
    for x_part, y_part in zip(x.split(rows), y.split(rows), strict=True):
        loss = _loss(model, x_part, y_part, config) * (1 / len(x.split(rows)))
        loss.backward()
        total += loss.item()
    return total
