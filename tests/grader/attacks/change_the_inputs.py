"""Changes its inputs in place so that its wrong answers become right.

group: cheat the exercise
target: tensor_memory
status: failed
holds: the grader computes the expected answers from its own copy of the inputs.
"""


def tensor_bytes(x):
    x.resize_(1)
    return x.element_size()


def storage_bytes(x):
    x.untyped_storage().resize_(8)
    return 8


def unique_bytes(tensors):
    if isinstance(tensors, list):
        tensors.clear()
    return -1
