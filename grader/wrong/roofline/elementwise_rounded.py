"""The intensity is rounded to six decimals.

hint: return the quotient as it is; whoever prints it rounds it
"""


def elementwise_intensity(flops_per_element, tensors_read, tensors_written, dtype):
    return round(flops_per_element / ((tensors_read + tensors_written) * dtype.itemsize), 6)
