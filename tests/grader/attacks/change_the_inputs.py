"""Changes its inputs so that its wrong answers are right.

group: cheat the exercise
target: tensor_memory
status: failed
holds: the grader compares with inputs of its own.
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
