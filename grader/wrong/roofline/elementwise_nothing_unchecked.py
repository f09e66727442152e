"""Where no tensor is moved it ends in a ZeroDivisionError.

hint: say what is wrong with the call: a ValueError
"""


def elementwise_intensity(flops_per_element, tensors_read, tensors_written, dtype):
    _require_not_negative(flops_per_element=flops_per_element, tensors_read=tensors_read, tensors_written=tensors_written)
    return flops_per_element / ((tensors_read + tensors_written) * dtype.itemsize)
