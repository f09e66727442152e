"""The bytes of `exclude` are subtracted from the sum, whether they are in it or not.

hint: what if an excluded tensor is not saved at all?
"""


def saved_activation_bytes(fn, exclude=()):
    kept = {}

    def pack(x):
        kept[x.untyped_storage()._cdata] = x.untyped_storage()
        return x

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda x: x):
        fn()
    left_out = {x.untyped_storage()._cdata: x.untyped_storage() for x in exclude}
    return sum(s.nbytes() for s in kept.values()) - sum(s.nbytes() for s in left_out.values())
