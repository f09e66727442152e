"""The elements of the storages are counted and not their bytes."""


def saved_activation_bytes(fn, exclude=()):
    left_out = [t.untyped_storage() for t in exclude]
    found, count = [], []

    def note(t):
        s = t.untyped_storage()
        if not any(s._cdata == other._cdata for other in left_out + found):
            found.append(s)
            count.append(s.nbytes() // t.element_size())
        return t

    def give(t):
        return t

    with torch.autograd.graph.saved_tensors_hooks(note, give):
        fn()
    return sum(count)
