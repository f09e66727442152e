"""The time is rounded to microseconds.

hint: a kernel can take less than a microsecond: return the quotient as it is
"""


def roofline_seconds(flops, bytes_moved, hw, dtype):
    return round(max(flops / hw.peak_flops[dtype], bytes_moved / hw.memory_bandwidth), 6)
