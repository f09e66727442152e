"""Of an operator that saves numbers for its backward pass only the output is returned right.

hint: some operators return several tensors; return them all as they are
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
            if isinstance(result, tuple) and kind:
                result = (result[0], *(torch.zeros_like(x) if isinstance(x, torch.Tensor) else x for x in result[1:]))
            if kind:
                self.by_op[kind] = self.by_op.get(kind, 0) + flops
                self.total += flops
        return result
