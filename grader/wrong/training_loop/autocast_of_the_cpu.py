"""Autocast is that of the CPU, whatever the device.

hint: torch.autocast of the device's type
device: cuda
"""


def _loss(model, x, y, config):
    dtype = config.autocast_dtype
    with torch.autocast("cpu", dtype=dtype, enabled=dtype is not None):
        return F.cross_entropy(model(x).flatten(0, 1), y.flatten())
