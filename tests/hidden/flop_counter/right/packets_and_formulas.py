"""A decorator fills a table with a formula per overload; an operator is counted before it runs."""

FORMULAS = {}


def formula(*names):
    def register(function):
        for name in names:
            packet = getattr(torch.ops.aten, name)
            for overload in packet.overloads():
                FORMULAS[getattr(packet, overload)] = name, function
        return function

    return register


@formula("mm")
def mm_flops(a, b, *_):
    return 2 * a.size(0) * a.size(1) * b.size(1)


@formula("addmm")
def addmm_flops(bias, a, b, *_):
    return mm_flops(a, b)


@formula("bmm")
def bmm_flops(a, b, *_):
    return 2 * math.prod((*a.shape, b.size(2)))


@formula("baddbmm")
def baddbmm_flops(c, a, b, *_):
    return bmm_flops(a, b)


@formula("mv", "dot")
def vector_flops(a, x, *_):
    return 2 * a.numel()


KERNELS = ["flash_attention", "flash_attention_for_cpu", "efficient_attention", "cudnn_attention"]


@formula(*(f"_scaled_dot_product_{kernel}" for kernel in KERNELS))
def attention_flops(q, k, v, *_):
    return 2 * q.numel() * k.size(-2) + 2 * q[..., :1].numel() * k.size(-2) * v.size(-1)


@formula(*(f"_scaled_dot_product_{kernel}_backward" for kernel in KERNELS))
def attention_backward_flops(gradient, q, k, v, *_):
    return 2 * attention_flops(q, k, v) + 2 * q.numel() * k.size(-2)


class FlopCounter(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.total = 0
        self.by_op = {}

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if func in FORMULAS:
            name, formula = FORMULAS[func]
            count = formula(*args)
            self.total += count
            self.by_op.setdefault(name, 0)
            self.by_op[name] += count
        kwargs = kwargs or {}
        return func(*args, **kwargs)
