"""Matches names by hand, with two keys for attention and methods of its own to enter and exit."""


class FlopCounter(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.by_op = {}
        self.total = 0

    def __enter__(self):
        return super().__enter__()

    def __exit__(self, exc_type, exc_value, traceback):
        return super().__exit__(exc_type, exc_value, traceback)

    def note(self, kind, flops):
        self.total = self.total + flops
        self.by_op = {**self.by_op, kind: self.by_op.get(kind, 0) + flops}

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = {} if kwargs is None else kwargs
        out = func(*args, **kwargs)
        match str(func).split("."):
            case ["aten", ("mm" | "bmm") as name, *_]:
                self.note(name, 2 * out.numel() * args[0].size(-1))
            case ["aten", ("addmm" | "baddbmm") as name, *_]:
                self.note(name, 2 * out.numel() * args[1].size(-1))
            case ["aten", ("mv" | "dot") as name, *_]:
                self.note(name, 2 * args[0].numel())
            case ["aten", name, *_] if name.startswith("_scaled_dot_product_"):
                backward = name.endswith("_backward")
                q, k, v = args[1:4] if backward else args[:3]
                rows, keys = q.numel() // q.size(-1), k.size(-2)
                times = (3, 2) if backward else (1, 1)
                kind = "attention backward" if backward else "attention"
                width = times[0] * q.size(-1) + times[1] * v.size(-1)
                self.note(kind, 2 * rows * keys * width)
        return out
