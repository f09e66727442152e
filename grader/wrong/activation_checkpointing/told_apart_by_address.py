"""Storages are told apart by their address, which is 0 for every meta tensor.

hint: a storage without data has no address of its own
"""


def saved_activation_bytes(fn, exclude=()):
    kept = []

    def pack(x):
        kept.append(x.untyped_storage())
        return x

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda x: x):
        fn()
    excluded = {x.untyped_storage().data_ptr() for x in exclude}
    return sum({s.data_ptr(): s.nbytes() for s in kept if s.data_ptr() not in excluded}.values())
