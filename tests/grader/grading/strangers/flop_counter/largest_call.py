"""by_op keeps the largest call of each kind."""


class FlopCounter(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.by_op = {}

    @property
    def total(self):
        return sum(self.by_op.values())

    def _note(self, kind, flops):
        self.by_op.setdefault(kind, 0)
        self.by_op[kind] = max(self.by_op[kind], flops)

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        with self:
            out = func.decompose(*args, **kwargs)
        if out is not NotImplemented:
            return out
        out = func(*args, **kwargs)
        name = str(func.overloadpacket).split(".")[-1].rstrip("_")
        if name in ("mm", "bmm", "mv", "dot"):
            left, right = args[0].shape, args[1].shape
            self._note(name, 2 * math.prod(left) * (1 if len(right) == 1 else right[-1]))
        elif name in ("addmm", "baddbmm"):
            left, right = args[1].shape, args[2].shape
            self._note(name, 2 * math.prod(left) * right[-1])
        elif "_scaled_dot_product" in name and name.endswith("_backward"):
            (b, h, n, d), m, v = args[1].shape, args[2].shape[-2], args[3].shape[-1]
            self._note("scaled_dot_product_attention_backward", 2 * b * h * n * m * (3 * d + 2 * v))
        elif "_scaled_dot_product" in name:
            (b, h, n, d), m, v = args[0].shape, args[1].shape[-2], args[2].shape[-1]
            self._note("scaled_dot_product_attention", 2 * b * h * n * m * (d + v))
        return out
