"""Of the arguments that are given by name only out= is passed on.

hint: func(*args, **kwargs): alpha=, scale= and dtype= are among them
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
            result = func(*args, **{name: value for name, value in kwargs.items() if name == "out"})
            kind, flops = _kind_and_flops(func.overloadpacket.__name__, args) or ("", 0)
            if kind:
                self.by_op[kind] = self.by_op.get(kind, 0) + flops
                self.total += flops
        return result
