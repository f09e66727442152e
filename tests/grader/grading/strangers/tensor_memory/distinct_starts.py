"""The address of the first shown element tells storages apart.

is: unique_by_first_element
"""


def unique_bytes(tensors):
    addresses, total, alive = set(), 0, list(tensors)
    for t in alive:
        start = t.data_ptr()
        if start in addresses:
            continue
        addresses.add(start)
        total += t.untyped_storage().nbytes()
    return total
