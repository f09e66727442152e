"""The error for a wrong size does not say which argument it is.

hint: name the argument and the value that came
"""


def get_batch(dataset, batch_size, context_length, device, generator=None):
    if batch_size < 1 or context_length < 1:
        raise ValueError("sizes must be positive")
    if len(dataset) <= context_length:
        raise ValueError(f"dataset of {len(dataset)} tokens is too short for context_length {context_length}")
    starts = torch.randint(len(dataset) - context_length, (batch_size, 1), generator=generator)
    positions = (starts + torch.arange(context_length)).numpy()
    x = torch.from_numpy(dataset[positions].astype(np.int64))
    y = torch.from_numpy(dataset[positions + 1].astype(np.int64))
    return x.to(device), y.to(device)
