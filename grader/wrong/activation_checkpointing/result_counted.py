"""The bytes of fn's result are added to what is saved.

hint: does an operation keep its result, or does only its caller?
"""


def saved_activation_bytes(fn, exclude=()):
    kept = {}

    def pack(x):
        kept[x.untyped_storage()._cdata] = x.untyped_storage()
        return x

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda x: x):
        output = fn()
    if output.requires_grad:
        kept[output.untyped_storage()._cdata] = output.untyped_storage()
    excluded = {x.untyped_storage()._cdata for x in exclude}
    return sum(s.nbytes() for address, s in kept.items() if address not in excluded)
