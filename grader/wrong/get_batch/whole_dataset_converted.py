"""The whole dataset is converted for every batch.

hint: slice first, convert the windows
"""


def get_batch(dataset, batch_size, context_length, device, generator=None):
    if len(dataset) <= context_length:
        raise ValueError(f"dataset of {len(dataset)} tokens is too short for context_length {context_length}")
    tokens = torch.from_numpy(dataset.astype(np.int64))
    starts = torch.randint(len(dataset) - context_length, (batch_size, 1), generator=generator)
    positions = starts + torch.arange(context_length)
    x, y = tokens[positions], tokens[positions + 1]
    return x.to(device), y.to(device)
