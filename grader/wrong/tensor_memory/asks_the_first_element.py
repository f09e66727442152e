"""The size of an element is asked of the first one, which an empty tensor does not have.

hint: x.element_size() needs no element.
"""


def tensor_bytes(x):
    return x.numel() * x.flatten()[0].nbytes
