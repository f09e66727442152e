"""Every element is taken for four bytes.

hint: bytes depend on the dtype
"""


def saved_activation_bytes(fn, exclude=()):
    kept = []

    def pack(x):
        kept.append(x)
        return x

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda x: x):
        fn()
    excluded = {x.untyped_storage()._cdata for x in exclude}
    elements = {x.untyped_storage()._cdata: x.untyped_storage().nbytes() // x.element_size() for x in kept}
    return 4 * sum(n for address, n in elements.items() if address not in excluded)
