"""The last start is never drawn.

hint: n - context_length starts, the last of which is n - context_length - 1
"""


def _batch(tokens, config, stream, number):
    rng = np.random.default_rng([config.seed, stream, number])
    starts = rng.integers(max(1, len(tokens) - config.context_length - 1), size=(config.batch_size, 1))
    windows = tokens[starts + np.arange(config.context_length + 1)]
    windows = torch.from_numpy(windows.astype(np.int64)).to(config.device)
    return windows[:, :-1], windows[:, 1:]
