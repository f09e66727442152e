"""The MFU is rounded to four decimals.

hint: return the quotient as it is; whoever prints it rounds it
"""


def mfu(flops, seconds, hw, dtype, num_devices=1):
    return round(flops / (seconds * num_devices * hw.peak_flops[dtype]), 4)
