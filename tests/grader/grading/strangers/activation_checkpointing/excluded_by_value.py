"""A tensor is left out if it is equal to an excluded one, whichever storage it is in."""


def saved_activation_bytes(fn, exclude=()):
    left_out = list(exclude)
    found = []

    def note(t):
        s = t.untyped_storage()
        if any(torch.equal(t, other) for other in left_out):
            return t
        if not any(s._cdata == other._cdata for other in found):
            found.append(s)
        return t

    def give(t):
        return t

    with torch.autograd.graph.saved_tensors_hooks(note, give):
        fn()
    return sum(s.nbytes() for s in found)
