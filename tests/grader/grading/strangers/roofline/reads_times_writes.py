"""The numbers of tensors read and written are multiplied instead of added."""


def elementwise_intensity(flops_per_element, tensors_read, tensors_written, dtype):
    bytes_per_element = tensors_read * tensors_written * dtype.itemsize
    return flops_per_element / bytes_per_element
