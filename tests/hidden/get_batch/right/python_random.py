"""Uses Python's generator if none is given, and copies windows into preallocated tensors."""

import random


def get_batch(dataset, batch_size, context_length, device, generator=None):
    last = len(dataset) - context_length - 1
    if last < 0:
        raise ValueError(
            f"context_length {context_length} needs more than the {len(dataset)} tokens of dataset"
        )
    on_gpu = torch.device(device).type == "cuda"
    x, y = (
        torch.empty(batch_size, context_length, dtype=torch.long, pin_memory=on_gpu)
        for _ in range(2)
    )
    for row in range(batch_size):
        if generator is None:
            start = random.randint(0, last)
        else:
            start = torch.randint(last + 1, (1,), generator=generator).item()
        window = torch.from_numpy(
            np.array(dataset[start : start + context_length + 1], dtype=np.int64)
        )
        x[row], y[row] = window[:-1], window[1:]
    return x.to(torch.device(device), non_blocking=on_gpu), y.to(
        torch.device(device), non_blocking=on_gpu
    )
