"""numpy's scalars inside, one table of the three matrices, and Python's numbers out."""

import numpy as np


def elementwise_intensity(flops_per_element, tensors_read, tensors_written, dtype):
    amounts = np.array([flops_per_element, tensors_read, tensors_written], dtype=np.float64)
    if (amounts < 0).any():
        raise ValueError(f"flops_per_element, tensors_read, tensors_written hold a negative number: {amounts}")
    moved = amounts[1:].sum() * dtype.itemsize
    if moved == 0:
        raise ValueError("no tensor is read or written")
    return float(amounts[0] / moved)


def matmul_intensity(m, k, n, dtype):
    shapes = np.array([[m, k], [k, n], [m, n]], dtype=np.int64)
    if (shapes < 1).any():
        raise ValueError(f"m, k, n = {m}, {k}, {n}")
    flops = 2.0 * np.prod([m, k, n], dtype=np.float64)
    return float(flops / (shapes.prod(axis=1).sum() * dtype.itemsize))


def roofline_seconds(flops, bytes_moved, hw, dtype):
    _require_not_negative(flops=flops, bytes_moved=bytes_moved)
    work = np.array([flops, bytes_moved], dtype=np.float64)
    return float(np.max(work / [_peak(hw, dtype), hw.memory_bandwidth]))


def is_compute_bound(flops, bytes_moved, hw, dtype):
    _require_not_negative(flops=flops, bytes_moved=bytes_moved)
    return bool(np.float64(flops) / _peak(hw, dtype) >= np.float64(bytes_moved) / hw.memory_bandwidth)


def mfu(flops, seconds, hw, dtype, num_devices=1):
    _require_not_negative(flops=flops)
    _require_positive(seconds=seconds, num_devices=num_devices)
    return float(np.divide(np.float64(flops) / seconds, np.float64(_peak(hw, dtype)) * num_devices))


def attainable_mfu(intensity, hw, dtype):
    _require_not_negative(intensity=intensity)
    return float(np.clip(intensity * hw.memory_bandwidth / _peak(hw, dtype), 0, 1))
