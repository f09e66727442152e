"""Numbers the elements in memory and looks for strides that reproduce these numbers."""

import itertools
import math

import torch


def element_offset(x, index):
    if len(index) != len(x.shape):
        raise ValueError("index and x.shape have different lengths")
    at = [range(n)[i] for n, i in zip(x.shape, index, strict=True)]
    return x.storage_offset() + int((torch.tensor(at) * torch.tensor(x.stride())).sum())


def contiguous_strides(shape):
    products = itertools.accumulate([1, *reversed(shape)], lambda a, b: a * b)
    return tuple(reversed(list(products)[: len(shape)]))


def view_strides(shape, stride, new_shape):
    if math.prod(shape) != math.prod(new_shape):
        raise ValueError("new_shape has other elements than shape")
    numbers = torch.zeros(tuple(shape), dtype=torch.int64)
    for d, (n, s) in enumerate(zip(shape, stride, strict=True)):
        numbers += (torch.arange(n) * s).reshape([-1 if k == d else 1 for k in range(len(shape))])
    wanted = numbers.reshape(new_shape)
    strides = [
        int(wanted.select(d, 1).flatten()[0]) if n > 1 else 0 for d, n in enumerate(new_shape)
    ]
    shown = torch.zeros_like(wanted)
    for d, (n, s) in enumerate(zip(new_shape, strides, strict=True)):
        shown += (torch.arange(n) * s).reshape([-1 if k == d else 1 for k in range(len(new_shape))])
    return tuple(strides) if torch.equal(shown, wanted) else None


def sliding_windows(x, size, step):
    return x.unfold(0, size, 1)[::step]
