"""The time is that of computing, whatever is moved.

hint: a memory-bound kernel waits for its bytes
"""


def roofline_seconds(flops, bytes_moved, hw, dtype):
    _require_not_negative(flops=flops, bytes_moved=bytes_moved)
    return flops / _peak(hw, dtype)
