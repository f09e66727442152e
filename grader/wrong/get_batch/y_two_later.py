"""The targets are two tokens later.

hint: y[i, j] = dataset[start + j + 1]
"""


def get_batch(dataset, batch_size, context_length, device, generator=None):
    if len(dataset) <= context_length:
        raise ValueError(f"dataset of {len(dataset)} tokens is too short for context_length {context_length}")
    starts = torch.randint(max(len(dataset) - context_length - 1, 1), (batch_size, 1), generator=generator)
    positions = (starts + torch.arange(context_length)).numpy()
    x = torch.from_numpy(dataset[positions].astype(np.int64))
    y = torch.from_numpy(dataset[np.minimum(positions + 2, len(dataset) - 1)].astype(np.int64))
    return x.to(device), y.to(device)
