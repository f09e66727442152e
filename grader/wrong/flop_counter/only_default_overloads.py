"""Forms with out= are not counted.

hint: mm.out is mm
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
            result = func(*args, **kwargs)
            kind, flops = _kind_and_flops(func.overloadpacket.__name__, args) or ("", 0)
            if kind and func._overloadname == "default":
                self.by_op[kind] = self.by_op.get(kind, 0) + flops
                self.total += flops
        return result
