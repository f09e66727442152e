"""Walks the graph of the result and counts what its nodes have saved."""


def saved_activation_bytes(fn, exclude=()):
    left_out = [x.untyped_storage() for x in exclude]
    output = fn()
    nodes, seen, tensors = [output.grad_fn], set(), []
    while nodes:
        node = nodes.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        nodes.extend(n for n, _ in node.next_functions)
        if isinstance(node, torch.autograd.function.BackwardCFunction):
            tensors += node.saved_tensors
        for name in dir(node):
            if name.startswith("_saved_"):
                value = getattr(node, name)
                tensors += [
                    x
                    for x in (value if isinstance(value, (tuple, list)) else [value])
                    if isinstance(x, Tensor)
                ]
    total, counted = 0, {s._cdata for s in left_out}
    for x in tensors:
        storage = x.untyped_storage()
        if storage._cdata not in counted:
            counted.add(storage._cdata)
            total += storage.nbytes()
    return total
