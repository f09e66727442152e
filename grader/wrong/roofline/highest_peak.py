"""The time takes the device's highest peak.

hint: hw.peak_flops[dtype]: each dtype has a peak of its own
"""


def roofline_seconds(flops, bytes_moved, hw, dtype):
    return max(flops / max(hw.peak_flops.values()), bytes_moved / hw.memory_bandwidth)
