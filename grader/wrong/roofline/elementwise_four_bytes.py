"""Every element takes 4 bytes.

hint: how many bytes does one element of this dtype take?
"""


def elementwise_intensity(flops_per_element, tensors_read, tensors_written, dtype):
    _require_not_negative(flops_per_element=flops_per_element, tensors_read=tensors_read, tensors_written=tensors_written)
    if tensors_read + tensors_written == 0:
        raise ValueError("tensors_read and tensors_written are both 0")
    return flops_per_element / ((tensors_read + tensors_written) * 4)
