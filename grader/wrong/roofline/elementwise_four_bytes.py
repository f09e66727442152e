"""Every element takes 4 bytes.

hint: how many bytes does one element of this dtype take?
"""


def elementwise_intensity(flops_per_element, tensors_read, tensors_written, dtype):
    return flops_per_element / ((tensors_read + tensors_written) * 4)
