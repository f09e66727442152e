# Right solutions of get_batch in other styles; see grader/solutions/fragments.py.

# [no_checks] Leaves the length check to torch, and returns x and y in a list.
def get_batch(dataset, batch_size, context_length, device, generator=None):
    starts = torch.randint(len(dataset) - context_length, (batch_size,), generator=generator)
    windows = np.stack([dataset[start : start + context_length + 1] for start in starts])
    tokens = torch.tensor(windows, dtype=torch.long)
    if torch.device(device).type == "cuda":
        tokens = tokens.pin_memory()
    return [tokens[:, i : context_length + i].to(device, non_blocking=True) for i in (0, 1)]


# [python_random] Uses Python's generator if none is given, and copies windows into preallocated
# tensors.
import random


def get_batch(dataset, batch_size, context_length, device, generator=None):
    last = len(dataset) - context_length - 1
    if last < 0:
        raise ValueError(f"{len(dataset)} tokens for context_length {context_length}")
    on_gpu, shape = torch.device(device).type == "cuda", (batch_size, context_length)
    x, y = (torch.empty(shape, dtype=torch.long, pin_memory=on_gpu) for _ in range(2))
    for row in range(batch_size):
        if generator is None:
            start = random.randint(0, last)
        else:
            start = torch.randint(last + 1, (1,), generator=generator).item()
        window = np.array(dataset[start : start + context_length + 1], dtype=np.int64)
        x[row], y[row] = torch.from_numpy(window[:-1]), torch.from_numpy(window[1:])
    return tuple(part.to(torch.device(device), non_blocking=on_gpu) for part in (x, y))


# [sliding_view] Takes rows of a sliding view; numpy draws them, seeded from the given generator if
# any.
def get_batch(dataset, batch_size, context_length, device, generator=None):
    if len(dataset) < context_length + 1:
        raise ValueError(f"dataset needs at least {context_length + 1} tokens")
    windows = np.lib.stride_tricks.sliding_window_view(dataset, context_length + 1)
    if generator is None:
        chosen = np.random.randint(0, len(windows), size=batch_size)
    else:
        seed = int(torch.randint(2**62, (), generator=generator))
        chosen = np.random.default_rng(seed).integers(0, len(windows), size=batch_size)
    tokens = torch.from_numpy(windows[chosen].astype(np.int64))
    if "cuda" in str(device):
        tokens = tokens.pin_memory()
    tokens = tokens.to(device, non_blocking=True)
    return tokens[:, :-1], tokens[:, 1:]


# [tensor_view] Makes x and y from one tensor by unfold, and parses the header by hand.
def open_tokens(path, dtype=np.uint16):
    with open(path, "rb") as file:
        if file.read(6) != np.lib.format.MAGIC_PREFIX:
            return np.memmap(os.fspath(path), dtype=dtype, mode="r")
        file.seek(0)
        major, minor = np.lib.format.read_magic(file)
        read_header = getattr(np.lib.format, f"read_array_header_{major}_{minor}")
        shape, by_columns, dtype = read_header(file)
        order = "F" if by_columns else "C"
        return np.memmap(path, dtype, "r", file.tell(), shape, order)


def get_batch(dataset, batch_size, context_length, device, generator=None):
    if len(dataset) <= context_length:
        raise ValueError(f"dataset: {len(dataset)} tokens are too few")
    count = len(dataset) - context_length
    starts = torch.randint(high=count, size=(batch_size,), generator=generator)
    rows = [torch.as_tensor(dataset[s : s + context_length + 1].astype("int64")) for s in starts]
    pair = torch.stack(rows).unfold(1, context_length, 1)
    halves = pair[:, 0].contiguous(), pair[:, 1].contiguous()
    if torch.device(device).type == "cuda":
        return tuple(half.pin_memory().to(device, non_blocking=True) for half in halves)
    return halves[0].to(device), halves[1].to(device)
