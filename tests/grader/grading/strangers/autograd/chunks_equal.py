"""The chunks' means are averaged.

is: accumulate_one_over_the_number_of_chunks
"""


def accumulate_gradients(model, loss_fn, x, y, micro_batch_size):
    if micro_batch_size < 1 or x.shape[0] != y.shape[0]:
        raise ValueError("sizes")
    pairs = list(zip(x.split(micro_batch_size), y.split(micro_batch_size)))
    total = 0.0
    for xs, ys in pairs:
        part = loss_fn(model(xs), ys).div(len(pairs))
        part.backward()
        total += float(part)
    return total
