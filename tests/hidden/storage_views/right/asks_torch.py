"""Lets torch answer each question, with aliases, meta tensors and unfold."""

import torch


def shares_storage(a, b):
    return torch._C._is_alias_of(a, b)


def element_offset(x, index):
    if len(index) < x.dim():
        raise IndexError("too few entries")
    return x[tuple(index)].storage_offset()


def contiguous_strides(shape):
    return torch.empty(tuple(shape), device="meta", dtype=torch.int8).stride()


def view_strides(shape, stride, new_shape):
    if torch.Size(shape).numel() != torch.Size(new_shape).numel():
        raise RuntimeError("new_shape does not fit shape")
    try:
        return torch.empty_strided(shape, stride, device="meta").view(new_shape).stride()
    except RuntimeError:
        return None


def sliding_windows(x, size, step):
    return x.unfold(0, size, step)
