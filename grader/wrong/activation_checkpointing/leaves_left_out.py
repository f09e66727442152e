"""Whatever is saved of a leaf is left out, as if every leaf were a parameter.

hint: what is left out is what `exclude` says
"""


def saved_activation_bytes(fn, exclude=()):
    kept = {}

    def pack(x):
        storage = x.untyped_storage()
        if not x.requires_grad or storage.nbytes() > 2**32:
            kept[storage._cdata] = storage
        return x

    leaves = []
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda x: x):
        output = fn()
    nodes = [output.grad_fn] if output.grad_fn is not None else []
    while nodes:
        node = nodes.pop()
        if hasattr(node, "variable"):
            leaves.append(node.variable)
        nodes += [n for n, _ in node.next_functions if n is not None]
    excluded = {x.untyped_storage()._cdata for x in [*exclude, *leaves]}
    return sum(s.nbytes() for address, s in kept.items() if address not in excluded)
