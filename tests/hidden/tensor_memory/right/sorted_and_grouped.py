"""Sorts and groups storages by identity, and counts the largest size of each group."""

from itertools import groupby


def tensor_bytes(x):
    return int(x.shape.numel() * x.element_size())


def storage_bytes(x):
    return x.untyped_storage().size()


def unique_bytes(tensors):
    kept = tuple(tensors)
    storages = sorted((x.untyped_storage()._cdata, storage_bytes(x)) for x in kept)
    return sum(
        max(size for _, size in group) for _, group in groupby(storages, key=lambda pair: pair[0])
    )
