"""All of the data is converted to int64 for every batch.

hint: convert the windows alone
"""


def _batch(tokens, config, stream, number):
    rng = np.random.default_rng([config.seed, stream, number])
    starts = rng.integers(len(tokens) - config.context_length, size=(config.batch_size, 1))
    windows = tokens.astype(np.int64)[starts + np.arange(config.context_length + 1)]
    windows = torch.from_numpy(windows).to(config.device)
    return windows[:, :-1], windows[:, 1:]
