"""fn is called with gradients on, also where its caller has turned them off.

hint: under no_grad nothing is kept
"""


def saved_activation_bytes(fn, exclude=()):
    kept = {}

    def pack(x):
        kept[x.untyped_storage()._cdata] = x.untyped_storage()
        return x

    with torch.enable_grad(), torch.autograd.graph.saved_tensors_hooks(pack, lambda x: x):
        fn()
    excluded = {x.untyped_storage()._cdata for x in exclude}
    return sum(s.nbytes() for address, s in kept.items() if address not in excluded)
