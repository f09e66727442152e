"""An operation that reads no tensor is refused.

hint: filling in a constant reads nothing and is no error
"""


def elementwise_intensity(flops_per_element, tensors_read, tensors_written, dtype):
    _require_not_negative(flops_per_element=flops_per_element)
    _require_positive(tensors_read=tensors_read, tensors_written=tensors_written)
    return flops_per_element / ((tensors_read + tensors_written) * dtype.itemsize)
