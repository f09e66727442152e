"""Lists events under their full names before they run, and adds them up when it is asked."""


class FlopCounter(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.events = []

    @property
    def total(self):
        return sum(flops for _, flops in self.events)

    @property
    def by_op(self):
        out = {}
        for name, flops in self.events:
            out[name] = out.get(name, 0) + flops
        return out

    def __torch_dispatch__(self, func, types, args=(), kwargs={}):
        self.events.append((str(func), self.flops(func._schema.name, args)))
        return func(*args, **kwargs)

    def flops(self, name, args):
        match name:
            case "aten::mm" | "aten::mv" | "aten::dot" | "aten::bmm":
                a, b = args[0], args[1]
                return 2 * a.numel() * (b.shape[-1] if b.dim() >= 2 else 1)
            case "aten::addmm" | "aten::baddbmm":
                return 2 * args[1].numel() * args[2].shape[-1]
            case (
                "aten::_scaled_dot_product_flash_attention_for_cpu"
                | "aten::_scaled_dot_product_flash_attention"
                | "aten::_scaled_dot_product_efficient_attention"
            ):
                q, k, v = args[:3]
                return 2 * q.shape[:-1].numel() * k.shape[2] * (q.shape[3] + v.shape[3])
            case (
                "aten::_scaled_dot_product_flash_attention_for_cpu_backward"
                | "aten::_scaled_dot_product_flash_attention_backward"
                | "aten::_scaled_dot_product_efficient_attention_backward"
            ):
                _, q, k, v = args[:4]
                qk = 2 * q.numel() * k.shape[2]
                pv = 2 * (q.numel() // q.shape[3]) * k.shape[2] * v.shape[3]
                return 3 * qk + 2 * pv
        return 0
