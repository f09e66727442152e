"""An MFU above 1 is an error.

hint: mfu reports what was measured, also where it shows a mistake
"""


def mfu(flops, seconds, hw, dtype, num_devices=1):
    share = flops / (seconds * num_devices * hw.peak_flops[dtype])
    if share > 1:
        raise ValueError(f"an MFU of {share} is impossible, check flops and seconds")
    return share
