"""Batches are not moved to the device.

hint: x.to(config.device)
device: cuda
"""


def _batch(tokens, config, stream, number):
    rng = np.random.default_rng([config.seed, stream, number])
    starts = rng.integers(len(tokens) - config.context_length, size=(config.batch_size, 1))
    windows = tokens[starts + np.arange(config.context_length + 1)]
    windows = torch.from_numpy(windows.astype(np.int64))
    return windows[:, :-1], windows[:, 1:]
