"""Windows may run past the end of the data and go on at its beginning.

hint: the last target is still in the data
"""


def _batch(tokens, config, stream, number):
    rng = np.random.default_rng([config.seed, stream, number])
    starts = rng.integers(len(tokens), size=(config.batch_size, 1))
    windows = tokens[(starts + np.arange(config.context_length + 1)) % len(tokens)]
    windows = torch.from_numpy(windows.astype(np.int64)).to(config.device)
    return windows[:, :-1], windows[:, 1:]
