"""What the student wrote in assignment/data.py: the bodies of these definitions."""


def get_batch(dataset, batch_size, context_length, device, generator=None):
    n = len(dataset)
    if batch_size < 1:
        raise ValueError("batch_size must be at least 1")
    if context_length < 1 or n <= context_length:
        raise ValueError("context_length must be at least 1 and below the length of dataset")
    starts = torch.randint(n - context_length, (batch_size,), generator=generator).tolist()
    x = np.stack([dataset[s : s + context_length] for s in starts]).astype(np.int64)
    y = np.stack([dataset[s + 1 : s + 1 + context_length] for s in starts]).astype(np.int64)
    return torch.from_numpy(x).to(device), torch.from_numpy(y).to(device)
