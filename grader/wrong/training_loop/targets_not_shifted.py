"""The targets are the inputs themselves.

hint: the target of a token is the one that follows it
"""


def _batch(tokens, config, stream, number):
    rng = np.random.default_rng([config.seed, stream, number])
    starts = rng.integers(len(tokens) - config.context_length, size=(config.batch_size, 1))
    windows = tokens[starts + np.arange(config.context_length + 1)]
    windows = torch.from_numpy(windows.astype(np.int64)).to(config.device)
    return windows[:, :-1], windows[:, :-1]
