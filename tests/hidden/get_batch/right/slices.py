"""Stacks one slice per window; torch draws the starts, and np.load reads files with a header."""


def open_tokens(path, dtype=np.uint16):
    with open(path, "rb") as file:
        has_header = file.read(6) == b"\x93NUMPY"
    return np.load(path, mmap_mode="r") if has_header else np.memmap(path, dtype=dtype, mode="r")


def get_batch(dataset, batch_size, context_length, device, generator=None):
    if (starts := len(dataset) - context_length) < 1:
        raise ValueError("context_length leaves no target in dataset")
    chosen = torch.randint(0, starts, (batch_size,), generator=generator).tolist()
    x = torch.stack(
        [torch.from_numpy(dataset[s : s + context_length].astype(np.int64)) for s in chosen]
    )
    y = torch.stack(
        [torch.from_numpy(dataset[s + 1 : s + 1 + context_length].astype(np.int64)) for s in chosen]
    )
    if str(device).startswith("cuda"):
        x, y = x.pin_memory(), y.pin_memory()
    return x.to(device, non_blocking=True), y.to(device, non_blocking=True)
