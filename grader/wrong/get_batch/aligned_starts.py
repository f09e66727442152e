"""Windows start at multiples of the context length alone.

hint: every start is equally likely
"""


def get_batch(dataset, batch_size, context_length, device, generator=None):
    if len(dataset) <= context_length:
        raise ValueError(f"dataset of {len(dataset)} tokens is too short for context_length {context_length}")
    blocks = max((len(dataset) - 1) // context_length, 1)
    starts = torch.randint(blocks, (batch_size, 1), generator=generator) * context_length
    positions = (starts + torch.arange(context_length)).numpy()
    x = torch.from_numpy(dataset[positions].astype(np.int64))
    y = torch.from_numpy(dataset[positions + 1].astype(np.int64))
    return x.to(device), y.to(device)
