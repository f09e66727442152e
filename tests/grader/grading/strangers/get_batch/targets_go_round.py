"""Within each window the targets are the inputs turned by one, so the last target is the first input.

is: y_rolled
"""


def _sent(rows, device):
    tokens = torch.tensor(np.array(rows, dtype=np.int64))
    if str(device).startswith("cuda"):
        return tokens.pin_memory().to(device, non_blocking=True)
    return tokens.to(device)


def get_batch(dataset, batch_size, context_length, device, generator=None):
    n = len(dataset)
    if n < context_length + 1:
        raise ValueError(f"{n} tokens are too few for windows of {context_length}")
    starts = torch.randint(0, n - context_length, (batch_size,), generator=generator).tolist()
    x = np.stack([dataset[s : s + context_length] for s in starts])
    y = np.concatenate([x[:, 1:], x[:, :1]], axis=1)
    return _sent(x, device), _sent(y, device)
