"""Rows of x without a row of y are broadcast or left out.

hint: x and y have as many rows
"""


def accumulate_gradients(model, loss_fn, x, y, micro_batch_size):
    total = 0.0
    for start in range(0, len(x), micro_batch_size):
        x_chunk, y_chunk = x[start : start + micro_batch_size], y[start : start + micro_batch_size]
        loss = loss_fn(model(x_chunk), y_chunk) * (len(x_chunk) / len(x))
        loss.backward()
        total += loss.item()
    return total
