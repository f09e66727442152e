"""Counts composite operators by formula and runs them whole, except for attention."""


class FlopCounter(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.total, self.by_op = 0, {}

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        name = func.overloadpacket.__name__
        if name in ("matmul", "linear"):
            kind = "mm" if args[1].dim() <= 2 else "bmm"
            self._add(kind, 2 * result.numel() * args[0].shape[-1])
        elif name == "scaled_dot_product_attention":
            q, k, v = args[:3]
            kind = "bmm" if len(args) > 4 and args[4] > 0 else name
            self._add(kind, 2 * (q.numel() + q[..., :1].numel() * v.shape[-1]) * k.shape[-2])
        else:
            self._add(*_kind_and_flops(name, args) or ("", 0))
        return result

    def _add(self, kind, flops):
        if kind:
            self.by_op = {**self.by_op, kind: self.by_op.get(kind, 0) + flops}
            self.total = self.total + flops
