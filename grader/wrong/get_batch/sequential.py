"""The windows follow one another from a random place on.

hint: a start of its own for each window
"""


def get_batch(dataset, batch_size, context_length, device, generator=None):
    if len(dataset) <= context_length:
        raise ValueError(f"dataset of {len(dataset)} tokens is too short for context_length {context_length}")
    first = torch.randint(len(dataset) - context_length, (1, 1), generator=generator)
    starts = (first + torch.arange(batch_size)[:, None] * context_length) % (len(dataset) - context_length)
    positions = (starts + torch.arange(context_length)).numpy()
    x = torch.from_numpy(dataset[positions].astype(np.int64))
    y = torch.from_numpy(dataset[positions + 1].astype(np.int64))
    return x.to(device), y.to(device)
