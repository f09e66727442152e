"""Tensors are told apart by their address and shape, so views of one storage count again."""


def saved_activation_bytes(fn, exclude=()):
    def key(t):
        return t.data_ptr(), tuple(t.shape)

    skip = {key(t) for t in exclude}
    seen = {}

    def pack(t):
        if key(t) not in skip:
            seen[key(t)] = t
        return t

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t):
        fn()
    return sum(t.untyped_storage().nbytes() for t in seen.values())
