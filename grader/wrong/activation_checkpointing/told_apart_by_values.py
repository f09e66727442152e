"""Tensors with equal values are taken for one.

hint: equal numbers in two storages take memory twice
"""


def saved_activation_bytes(fn, exclude=()):
    kept = []

    def pack(x):
        storage = x.untyped_storage()
        whole = torch.empty(0, dtype=x.dtype, device=x.device).set_(storage)
        same = [y for y in kept if y.shape == whole.shape and y.dtype == whole.dtype]
        if whole.device.type == "meta" or not any(torch.equal(y, whole) for y in same):
            kept.append(whole)
        return x

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda x: x):
        fn()
    excluded = {x.untyped_storage()._cdata for x in exclude}
    storages = {x.untyped_storage()._cdata: x.untyped_storage() for x in kept}
    return sum(s.nbytes() for address, s in storages.items() if address not in excluded)
