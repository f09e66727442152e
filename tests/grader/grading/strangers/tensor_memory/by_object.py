"""Tensors are remembered by their Python object.

is: unique_by_identity
"""


def unique_bytes(tensors):
    seen, held = {}, []
    for t in tensors:
        held.append(t)
        seen[id(t)] = t.untyped_storage().nbytes()
    return sum(seen.values())
