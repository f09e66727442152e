"""A negative number of tensors has an intensity.

hint: a negative count is a ValueError that names the argument
"""


def elementwise_intensity(flops_per_element, tensors_read, tensors_written, dtype):
    if tensors_read + tensors_written <= 0:
        raise ValueError("tensors_read + tensors_written must be above 0")
    return flops_per_element / ((tensors_read + tensors_written) * dtype.itemsize)
