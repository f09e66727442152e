"""Matches operator names with match statements, and reads most sizes from numel."""


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
        self.total += flops
        if kind not in self.by_op:
            self.by_op[kind] = 0
        self.by_op[kind] += flops

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = {} if kwargs is None else kwargs
        composite = torch._C._dispatch_has_kernel_for_dispatch_key(
            func.name(), "CompositeImplicitAutograd"
        )
        if composite:
            with self:
                return func.decompose(*args, **kwargs)
        out = func(*args, **kwargs)
        match str(func).split("."):
            case ["aten", ("mm" | "bmm") as name, *_]:
                self.note(name, 2 * out.numel() * args[0].size(-1))
            case ["aten", ("addmm" | "addmm_" | "baddbmm" | "baddbmm_") as name, *_]:
                self.note(name.strip("_"), 2 * out.numel() * args[1].size(-1))
            case ["aten", ("mv" | "dot") as name, *_]:
                self.note(name, 2 * args[0].numel())
            case ["aten", name, *_] if name.startswith("_scaled_dot_product") and name.endswith(
                "_backward"
            ):
                q, k, v = args[1], args[2], args[3]
                rows, keys = q.numel() // q.size(-1), k.size(-2)
                self.note(
                    "scaled_dot_product_attention_backward",
                    2 * rows * keys * (3 * q.size(-1) + 2 * v.size(-1)),
                )
            case ["aten", name, *_] if name.startswith("_scaled_dot_product"):
                q, k, v = args[0], args[1], args[2]
                rows, keys = q.numel() // q.size(-1), k.size(-2)
                self.note(
                    "scaled_dot_product_attention", 2 * rows * keys * (q.size(-1) + v.size(-1))
                )
        return out
