"""The total belongs to the class.

hint: self.total, not FlopCounter.total
price: every count but the first of a process is wrong
"""


class FlopCounter(TorchDispatchMode):
    total = 0

    def __init__(self):
        super().__init__()
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
                FlopCounter.total += flops
        return result
