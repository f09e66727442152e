"""A counter that is left adds its count to the one around it, which has counted it already.

hint: the outer counter sees the operators itself
"""


class FlopCounter(TorchDispatchMode):
    active = []

    def __init__(self):
        super().__init__()
        self.total = 0
        self.by_op = {}

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        with self:
            result = func.decompose(*args, **kwargs)
        if result is NotImplemented:
            result = func(*args, **kwargs)
            kind, flops = _kind_and_flops(func.overloadpacket.__name__, args) or ("", 0)
            if kind:
                self.by_op[kind] = self.by_op.get(kind, 0) + flops
                self.total += flops
        return result

    def __enter__(self):
        FlopCounter.active.append((self, self.total))
        return super().__enter__()

    def __exit__(self, *exception):
        _, before = FlopCounter.active.pop()
        outer = [counter for counter, _ in FlopCounter.active if counter is not self]
        if outer:
            outer[-1].total += self.total - before
        return super().__exit__(*exception)
