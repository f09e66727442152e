"""Reading and writing are taken to go on at once, so that only the larger of the two counts."""


def elementwise_intensity(flops_per_element, tensors_read, tensors_written, dtype):
    moved = max(tensors_read, tensors_written)
    return flops_per_element / moved / dtype.itemsize
