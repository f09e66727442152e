"""Entering sets everything back to 0.

hint: a counter that is entered again goes on from where it was
"""


class FlopCounter(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.total = 0
        self.by_op = {}

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        super().__enter__()
        try:
            result = func.decompose(*args, **kwargs)
        finally:
            super().__exit__(None, None, None)
        if result is NotImplemented:
            result = func(*args, **kwargs)
            kind, flops = _kind_and_flops(func.overloadpacket.__name__, args) or ("", 0)
            if kind:
                self.by_op[kind] = self.by_op.get(kind, 0) + flops
                self.total += flops
        return result

    def __enter__(self):
        self.total = 0
        self.by_op = {}
        return super().__enter__()
