"""Only tensors that are read are counted as traffic.

hint: what is written is moved as well
"""


def elementwise_intensity(flops_per_element, tensors_read, tensors_written, dtype):
    return flops_per_element / (max(tensors_read, 1) * dtype.itemsize)
