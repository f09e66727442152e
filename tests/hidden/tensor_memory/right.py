# Right solutions of tensor_memory in other styles; see grader/solutions/fragments.py.

# [itemsize_and_loop] Adds up storages that are not yet in a list.
def unique_bytes(tensors):
    total = 0
    seen = []
    for x in tensors:
        storage = x.untyped_storage()
        if not any(storage._cdata == other._cdata for other in seen):
            seen.append(storage)
            total += storage.nbytes()
    return total


# [nbytes_and_ids] Identifies storages by id while a list keeps them alive.
def unique_bytes(tensors):
    storages = [x.untyped_storage() for x in tensors]
    return sum({id(storage): storage.nbytes() for storage in storages}.values())


# [sorted_and_grouped] Sorts and groups storages by identity, and counts the largest size of each
# group.
from itertools import groupby


def unique_bytes(tensors):
    kept = tuple(tensors)
    storages = sorted((x.untyped_storage()._cdata, storage_bytes(x)) for x in kept)
    groups = groupby(storages, key=lambda pair: pair[0])
    return sum(max(size for _, size in group) for _, group in groups)
