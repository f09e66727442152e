"""Operators run with every counter off, so that an outer counter sees nothing.

hint: inside __torch_dispatch__ this counter is off already; the outer ones have to see the operator
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
            with torch._C._DisableTorchDispatch():
                result = func(*args, **kwargs)
            kind, flops = _kind_and_flops(func.overloadpacket.__name__, args) or ("", 0)
            if kind:
                self.by_op[kind] = self.by_op.get(kind, 0) + flops
                self.total += flops
        return result
