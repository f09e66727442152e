"""The FLOPs of the run are multiplied in 64-bit integers, which overflow.

hint: 6ND of a large run is more than 2**63: use Python's integers or floats
"""

import numpy as np


def training_days(num_parameters, num_tokens, hw, dtype, num_devices, mfu):
    if mfu > 1:
        raise ValueError(f"mfu is {mfu}")
    with np.errstate(over="ignore"):
        flops = np.int64(6) * np.int64(num_parameters) * np.int64(num_tokens)
    return float(flops / (num_devices * mfu * hw.peak_flops[dtype]) / 86_400)
