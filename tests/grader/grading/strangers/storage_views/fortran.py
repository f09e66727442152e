"""The strides grow from the first dimension to the last.

is: column_major
"""


def contiguous_strides(shape):
    strides, step = [], 1
    for n in shape:
        strides.append(step)
        step *= n
    return tuple(strides)
