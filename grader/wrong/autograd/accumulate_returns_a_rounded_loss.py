"""The loss is rounded to 6 decimals.

hint: round a number where it is printed, not where it is computed
"""


def accumulate_gradients(model, loss_fn, x, y, micro_batch_size):
    if len(x) != len(y):
        raise ValueError(f"x has {len(x)} rows and y has {len(y)}")
    mean = 0.0
    for start in range(0, len(x), micro_batch_size):
        rows = slice(start, start + micro_batch_size)
        loss = loss_fn(model(x[rows]), y[rows]) * (len(x[rows]) / len(x))
        loss.backward()
        mean += loss.item()
    return round(mean, 6)
