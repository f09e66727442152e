"""The targets are the tokens before the inputs."""


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
    x = [dataset[s + 1 : s + context_length + 1] for s in starts]
    y = [dataset[s : s + context_length] for s in starts]
    return _sent(x, device), _sent(y, device)
