"""Each chunk's loss goes through float16.

hint: float16 ends at 65,504 and at 6e-8: keep the loss in its own dtype
"""


def accumulate_gradients(model, loss_fn, x, y, micro_batch_size):
    if len(x) != len(y):
        raise ValueError(f"x has {len(x)} rows and y has {len(y)}")
    mean = 0.0
    for start in range(0, len(x), micro_batch_size):
        rows = slice(start, start + micro_batch_size)
        loss = loss_fn(model(x[rows]), y[rows]) * (len(x[rows]) / len(x))
        loss = loss.half().to(loss.dtype)
        loss.backward()
        mean += loss.item()
    return mean
