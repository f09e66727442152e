"""Only two dtypes of tokens are taken.

hint: astype(np.int64) takes any integer
"""


def _batch(tokens, config, stream, number):
    if tokens.dtype not in (np.int64, np.uint16):
        raise TypeError(f"tokens must be int64 or uint16, got {tokens.dtype}")
    rng = np.random.default_rng([config.seed, stream, number])
    starts = rng.integers(len(tokens) - config.context_length, size=(config.batch_size, 1))
    windows = tokens[starts + np.arange(config.context_length + 1)]
    windows = torch.from_numpy(windows.astype(np.int64)).to(config.device)
    return windows[:, :-1], windows[:, 1:]
