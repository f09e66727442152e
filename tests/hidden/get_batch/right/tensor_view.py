"""Makes x and y from one tensor by unfold, and parses the header by hand."""


def open_tokens(path, dtype=np.uint16):
    with open(path, "rb") as file:
        if file.read(6) != np.lib.format.MAGIC_PREFIX:
            return np.memmap(os.fspath(path), dtype=dtype, mode="r")
        file.seek(0)
        version = np.lib.format.read_magic(file)
        read_header = (
            np.lib.format.read_array_header_1_0
            if version == (1, 0)
            else np.lib.format.read_array_header_2_0
        )
        shape, by_columns, dtype = read_header(file)
        order = "F" if by_columns else "C"
        return np.memmap(path, dtype, "r", file.tell(), shape, order)


def get_batch(dataset, batch_size, context_length, device, generator=None):
    if len(dataset) <= context_length:
        raise ValueError(f"dataset: {len(dataset)} tokens are too few")
    starts = torch.randint(
        high=len(dataset) - context_length, size=(batch_size,), generator=generator
    )
    rows = [torch.as_tensor(dataset[s : s + context_length + 1].astype("int64")) for s in starts]
    pair = torch.stack(rows).unfold(1, context_length, 1)
    halves = pair[:, 0].contiguous(), pair[:, 1].contiguous()
    if torch.device(device).type == "cuda":
        return tuple(half.pin_memory().to(device, non_blocking=True) for half in halves)
    return halves[0].to(device), halves[1].to(device)
