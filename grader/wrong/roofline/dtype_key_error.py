"""A dtype without a peak is a KeyError.

hint: a KeyError does not say what is wrong with the call: a ValueError that names dtype
"""


def accelerator_intensity(hw, dtype):
    return hw.peak_flops[dtype] / hw.memory_bandwidth
