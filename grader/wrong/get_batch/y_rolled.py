"""The last target of a window is the window's first token.

hint: the last target is the token after the window
"""


def get_batch(dataset, batch_size, context_length, device, generator=None):
    if len(dataset) <= context_length:
        raise ValueError(f"dataset of {len(dataset)} tokens is too short for context_length {context_length}")
    starts = torch.randint(len(dataset) - context_length, (batch_size, 1), generator=generator)
    positions = (starts + torch.arange(context_length)).numpy()
    x = torch.from_numpy(dataset[positions].astype(np.int64))
    y = torch.roll(x, -1, dims=1)
    return x.to(device), y.to(device)
