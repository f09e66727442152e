"""Tokens go through float32, which rounds large ones.

hint: straight to int64
"""


def get_batch(dataset, batch_size, context_length, device, generator=None):
    if len(dataset) <= context_length:
        raise ValueError(f"dataset of {len(dataset)} tokens is too short for context_length {context_length}")
    starts = torch.randint(len(dataset) - context_length, (batch_size, 1), generator=generator)
    positions = (starts + torch.arange(context_length)).numpy()
    x = torch.Tensor(dataset[positions]).long()
    y = torch.Tensor(dataset[positions + 1]).long()
    return x.to(device), y.to(device)
