"""Only tensors that are read are counted as traffic.

hint: what is written is moved as well
"""


def elementwise_intensity(flops_per_element, tensors_read, tensors_written, dtype):
    _require_not_negative(flops_per_element=flops_per_element, tensors_read=tensors_read, tensors_written=tensors_written)
    if tensors_read + tensors_written == 0:
        raise ValueError("tensors_read and tensors_written are both 0")
    return flops_per_element / (max(tensors_read, 1) * dtype.itemsize)
