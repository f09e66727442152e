"""Computes with numpy's scalars and a table of the three matrices; returns Python numbers."""

import numpy as np


def elementwise_intensity(flops_per_element, tensors_read, tensors_written, dtype):
    amounts = np.array([flops_per_element, tensors_read, tensors_written], dtype=np.float64)
    return float(amounts[0] / (amounts[1:].sum() * dtype.itemsize))


def matmul_intensity(m, k, n, dtype):
    shapes = np.array([[m, k], [k, n], [m, n]], dtype=np.int64)
    flops = 2.0 * np.prod([m, k, n], dtype=np.float64)
    return float(flops / (shapes.prod(axis=1).sum() * dtype.itemsize))


def roofline_seconds(flops, bytes_moved, hw, dtype):
    work = np.array([flops, bytes_moved], dtype=np.float64)
    return float(np.max(work / [hw.peak_flops[dtype], hw.memory_bandwidth]))


def is_compute_bound(flops, bytes_moved, hw, dtype):
    return bool(
        np.float64(flops) / hw.peak_flops[dtype] >= np.float64(bytes_moved) / hw.memory_bandwidth
    )


def mfu(flops, seconds, hw, dtype, num_devices=1):
    return float(
        np.divide(np.float64(flops) / seconds, np.float64(hw.peak_flops[dtype]) * num_devices)
    )


def attainable_mfu(intensity, hw, dtype):
    return float(np.clip(intensity * hw.memory_bandwidth / hw.peak_flops[dtype], 0, 1))
