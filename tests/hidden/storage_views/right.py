# Right solutions of storage_views in other styles; see grader/solutions/fragments.py.

# [asks_torch] Lets torch answer, with views, meta tensors and unfold.
import torch


def element_offset(x, index):
    if len(index) < x.dim():
        raise IndexError("too few entries")
    return x[tuple(index)].storage_offset()


def view_strides(shape, stride, new_shape):
    if torch.Size(shape).numel() != torch.Size(new_shape).numel():
        raise RuntimeError("new_shape does not fit shape")
    try:
        return torch.empty_strided(shape, stride, device="meta").view(new_shape).stride()
    except RuntimeError:
        return None


def sliding_windows(x, size, step):
    return x.unfold(0, size, step)


# [inside_out] Builds the strides of a view from the last dimension to the first, in loops.
import math


def element_offset(x, index):
    if x.dim() != len(index):
        raise ValueError(f"expected an index of {x.dim()} entries, got {len(index)}")
    position = x.storage_offset()
    for d in range(x.dim()):
        i = index[d] + x.size(d) if index[d] < 0 else index[d]
        if i < 0 or i >= x.size(d):
            raise ValueError(f"index[{d}]")
        position += i * x.stride(d)
    return position


def view_strides(shape, stride, new_shape):
    if math.prod(shape) != math.prod(new_shape):
        raise ValueError("new_shape must have as many elements as shape")
    result = [0] * len(new_shape)
    j = len(new_shape) - 1
    inside = taken = 1
    base = stride[-1] if stride else 1
    for d in range(len(shape) - 1, -1, -1):
        inside *= shape[d]
        last = d == 0
        if not last and (shape[d - 1] == 1 or stride[d - 1] == inside * base):
            continue
        while j >= 0 and (taken < inside or new_shape[j] == 1):
            result[j] = taken * base
            taken *= new_shape[j]
            j -= 1
        if taken != inside:
            return None
        if not last:
            inside = taken = 1
            base = stride[d - 1]
    return tuple(result) if j < 0 else (1,) * len(new_shape)


# [numbers_the_elements] Numbers the elements in memory and looks for strides that reproduce these
# numbers.
import math

import torch


def view_strides(shape, stride, new_shape):
    if math.prod(shape) != math.prod(new_shape):
        raise ValueError("new_shape has other elements than shape")
    numbers = torch.zeros(tuple(shape), dtype=torch.int64)
    for d, (n, s) in enumerate(zip(shape, stride, strict=True)):
        numbers += (torch.arange(n) * s).reshape([-1 if k == d else 1 for k in range(len(shape))])
    wanted = numbers.reshape(new_shape)
    second = [wanted.select(d, 1).flatten()[0] if n > 1 else 0 for d, n in enumerate(new_shape)]
    strides = list(map(int, second))
    shown = torch.zeros_like(wanted)
    for d, (n, s) in enumerate(zip(new_shape, strides, strict=True)):
        shown += (torch.arange(n) * s).reshape([-1 if k == d else 1 for k in range(len(new_shape))])
    return tuple(strides) if torch.equal(shown, wanted) else None
