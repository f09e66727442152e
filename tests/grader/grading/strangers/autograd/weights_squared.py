"""A chunk's gradient counts by the square of its share, and the loss by its share."""


def accumulate_gradients(model, loss_fn, x, y, micro_batch_size):
    if micro_batch_size < 1 or x.shape[0] != y.shape[0]:
        raise ValueError("sizes")
    total = 0.0
    for xs, ys in zip(x.split(micro_batch_size), y.split(micro_batch_size)):
        share = xs.shape[0] / x.shape[0]
        part = loss_fn(model(xs), ys) * share
        (part * share).backward()
        total += float(part)
    return total
