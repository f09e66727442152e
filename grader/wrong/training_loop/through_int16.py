"""Tokens go through int16, as older versions of torch know no uint16.

hint: 40,000 is no int16
"""


def _batch(tokens, config, stream, number):
    rng = np.random.default_rng([config.seed, stream, number])
    starts = rng.integers(len(tokens) - config.context_length, size=(config.batch_size, 1))
    windows = tokens[starts + np.arange(config.context_length + 1)]
    windows = torch.from_numpy(windows.astype(np.int16).astype(np.int64)).to(config.device)
    return windows[:, :-1], windows[:, 1:]
