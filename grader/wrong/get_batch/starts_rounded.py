"""The starts are rounded, so that the first and the last are drawn half as often.

hint: torch.randint draws integers that are equally likely
"""


def get_batch(dataset, batch_size, context_length, device, generator=None):
    if len(dataset) <= context_length:
        raise ValueError(f"dataset of {len(dataset)} tokens is too short for context_length {context_length}")
    last = len(dataset) - context_length - 1
    starts = (last * torch.rand(batch_size, 1, generator=generator, dtype=torch.float64)).round().long()
    positions = (starts + torch.arange(context_length)).numpy()
    x = torch.from_numpy(dataset[positions].astype(np.int64))
    y = torch.from_numpy(dataset[positions + 1].astype(np.int64))
    return x.to(device), y.to(device)
