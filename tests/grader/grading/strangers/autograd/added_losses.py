"""The loss that is returned is the sum over the rows."""


def accumulate_gradients(model, loss_fn, x, y, micro_batch_size):
    if micro_batch_size < 1 or x.shape[0] != y.shape[0]:
        raise ValueError("sizes")
    total = 0.0
    for xs, ys in zip(x.split(micro_batch_size), y.split(micro_batch_size)):
        part = loss_fn(model(xs), ys) * len(xs)
        (part / len(x)).backward()
        total += float(part)
    return total
