"""The losses are added up and one backward pass comes at the end, with the graphs of all chunks in memory.

hint: a backward pass for each chunk frees its graph
"""


def accumulate_gradients(model, loss_fn, x, y, micro_batch_size):
    if len(x) != len(y):
        raise ValueError(f"x has {len(x)} rows and y has {len(y)}")
    total = 0.0
    for start in range(0, len(x), micro_batch_size):
        x_chunk, y_chunk = x[start : start + micro_batch_size], y[start : start + micro_batch_size]
        loss = loss_fn(model(x_chunk), y_chunk) * (len(x_chunk) / len(x))
        total = total + loss
    total.backward()
    return total.item()
