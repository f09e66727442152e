"""Each stride is the product of its own size and those after it."""


def contiguous_strides(shape):
    out, acc = [], 1
    for n in reversed(shape):
        acc *= n
        out.insert(0, acc)
    return tuple(out)
