"""Gradients are clipped to ±1 after each chunk.

hint: clip after accumulation, and only where that is asked for
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
        torch.nn.utils.clip_grad_value_(model.parameters(), 1.0)
    return mean
