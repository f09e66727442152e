"""Operators that come whole under inference_mode are not counted.

hint: matmul and linear are operators too, and inference_mode does not take them apart first
"""


class FlopCounter(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.total = 0
        self.by_op = {}

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if True:
            result = func(*args, **kwargs)
            kind, flops = _kind_and_flops(func.overloadpacket.__name__, args) or ("", 0)
            if kind:
                self.by_op[kind] = self.by_op.get(kind, 0) + flops
                self.total += flops
        return result
