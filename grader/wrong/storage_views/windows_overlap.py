"""Two tensors share a storage only where the stretches that they show overlap.

hint: the halves of a vector overlap nowhere and share its storage.
"""


def _stretch(x):
    last = sum((size - 1) * stride for size, stride in zip(x.shape, x.stride(), strict=True))
    return x.data_ptr(), x.data_ptr() + (last + 1) * x.element_size()


def shares_storage(a, b):
    (a_start, a_end), (b_start, b_end) = _stretch(a), _stretch(b)
    return a_start < b_end and b_start < a_end
