"""Counts three composite operators by formula and runs them whole; takes the others apart."""


class FlopCounter(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.total, self.by_op = 0, {}

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        name, result = func.overloadpacket.__name__, NotImplemented
        if name not in ("matmul", "linear", "scaled_dot_product_attention"):
            with self:
                result = func.decompose(*args, **(kwargs or {}))
            if result is not NotImplemented:
                return result
        result = func(*args, **(kwargs or {}))
        if name in ("matmul", "linear"):
            kind = "mm" if args[1].dim() <= 2 else "bmm"
            self._add(kind, 2 * result.numel() * args[0].shape[-1])
        elif name == "scaled_dot_product_attention":
            q, k, v = args[:3]
            drops = len(args) > 4 and args[4] > 0
            kind = "bmm" if drops or q.shape[-1] != v.shape[-1] else name
            self._add(kind, 2 * (q.numel() + q[..., :1].numel() * v.shape[-1]) * k.shape[-2])
        else:
            self._add(*_kind_and_flops(name, args) or ("", 0))
        return result

    def _add(self, kind, flops):
        if kind:
            self.by_op = {**self.by_op, kind: self.by_op.get(kind, 0) + flops}
            self.total = self.total + flops
