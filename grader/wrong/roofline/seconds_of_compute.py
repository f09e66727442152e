"""The time is that of computing, whatever is moved.

hint: a memory-bound kernel waits for its bytes
"""


def roofline_seconds(flops, bytes_moved, hw, dtype):
    return flops / hw.peak_flops[dtype]
