"""Gradients are scaled at the end, with what was there before.

hint: scale each chunk's loss, not .grad
"""


def accumulate_gradients(model, loss_fn, x, y, micro_batch_size):
    if len(x) != len(y):
        raise ValueError(f"x has {len(x)} rows and y has {len(y)}")
    total = 0.0
    for start in range(0, len(x), micro_batch_size):
        x_chunk, y_chunk = x[start : start + micro_batch_size], y[start : start + micro_batch_size]
        loss = loss_fn(model(x_chunk), y_chunk) * len(x_chunk)
        loss.backward()
        total += loss.item()
    for p in model.parameters():
        p.grad /= len(x)
    return total / len(x)
