"""Storages are told apart by the address of a tensor's first element.

hint: a view that starts further on in a storage is still that storage
"""


def saved_activation_bytes(fn, exclude=()):
    kept = []

    def pack(x):
        kept.append(x)
        return x

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda x: x):
        fn()
    excluded = {x.untyped_storage()._cdata for x in exclude}
    return sum(
        {x.data_ptr(): x.untyped_storage().nbytes() for x in kept if x.untyped_storage()._cdata not in excluded}.values()
    )
