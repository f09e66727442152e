"""Takes rows of a sliding view; numpy draws them, seeded from the given generator if any."""


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
