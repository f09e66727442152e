"""The operator runs once to see its result's shape and once for the caller.

hint: run it once and return that result
"""


class FlopCounter(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.total = 0
        self.by_op = {}

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        with self:
            result = func.decompose(*args, **kwargs)
        if result is NotImplemented:
            func(*args, **kwargs)
            result = func(*args, **kwargs)
            kind, flops = _kind_and_flops(func.overloadpacket.__name__, args) or ("", 0)
            if kind:
                self.by_op[kind] = self.by_op.get(kind, 0) + flops
                self.total += flops
        return result
