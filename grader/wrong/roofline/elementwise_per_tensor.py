"""FLOPs are counted for every tensor that is read.

hint: flops_per_element is what one element of the result takes in all
"""


def elementwise_intensity(flops_per_element, tensors_read, tensors_written, dtype):
    return flops_per_element * max(tensors_read, 1) / ((tensors_read + tensors_written) * dtype.itemsize)
