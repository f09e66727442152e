"""Gradients of earlier steps are never cleared.

hint: backward adds to .grad
"""


def _accumulate(model, optimizer, x, y, config):
    rows = config.micro_batch_size or config.batch_size
    total = 0.0
    for x_part, y_part in zip(x.split(rows), y.split(rows), strict=True):
        loss = _loss(model, x_part, y_part, config) * (len(x_part) / len(x))
        loss.backward()
        total += loss.item()
    return total
