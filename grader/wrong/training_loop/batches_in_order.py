"""Batches go through the data in order.

hint: every start is equally likely in every step
"""


def _batch(tokens, config, stream, number):
    first = (config.seed + number) * config.batch_size
    starts = np.arange(first, first + config.batch_size)[:, None] % (len(tokens) - config.context_length)
    windows = tokens[starts + np.arange(config.context_length + 1)]
    windows = torch.from_numpy(windows.astype(np.int64)).to(config.device)
    return windows[:, :-1], windows[:, 1:]
