"""A decorator fills a table with one formula per aten operator."""

FORMULAS = {}


def formula(kind, *packets):
    def register(function):
        for packet in packets:
            FORMULAS[packet] = kind, function
        return function

    return register


@formula("mm", torch.ops.aten.mm)
def mm_flops(out, a, b, *rest):
    return 2 * math.prod(out.shape) * a.shape[1]


@formula("addmm", torch.ops.aten.addmm, torch.ops.aten.addmm_)
def addmm_flops(out, c, a, b, *rest):
    return 2 * math.prod(out.shape) * a.shape[1]


@formula("bmm", torch.ops.aten.bmm)
def bmm_flops(out, a, b, *rest):
    return 2 * math.prod(out.shape) * a.shape[2]


@formula("baddbmm", torch.ops.aten.baddbmm, torch.ops.aten.baddbmm_)
def baddbmm_flops(out, c, a, b, *rest):
    return 2 * math.prod(out.shape) * a.shape[2]


@formula("mv", torch.ops.aten.mv)
def mv_flops(out, a, b, *rest):
    return 2 * a.shape[0] * a.shape[1]


@formula("dot", torch.ops.aten.dot)
def dot_flops(out, a, b, *rest):
    return 2 * a.shape[0]


KERNELS = ["flash_attention_for_cpu", "flash_attention", "efficient_attention", "cudnn_attention"]


@formula(
    "scaled_dot_product_attention",
    *(getattr(torch.ops.aten, f"_scaled_dot_product_{k}") for k in KERNELS),
)
def attention_flops(out, q, k, v, *rest):
    b, h, s, d = q.shape
    return 2 * b * h * s * k.shape[2] * d + 2 * b * h * s * k.shape[2] * v.shape[3]


@formula(
    "scaled_dot_product_attention_backward",
    *(getattr(torch.ops.aten, f"_scaled_dot_product_{k}_backward") for k in KERNELS),
)
def attention_backward_flops(out, dy, q, k, v, *rest):
    b, h, s, d = q.shape
    scores, values = 2 * b * h * s * k.shape[2] * d, 2 * b * h * s * k.shape[2] * v.shape[3]
    recomputed, dp, dv, dq, dk = scores, values, values, scores, scores
    return recomputed + dp + dv + dq + dk


class FlopCounter(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.total = 0
        self.by_op = {}

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs if kwargs is not None else {}
        packet = func.overloadpacket
        if packet not in FORMULAS:
            with self:
                out = func.decompose(*args, **kwargs)
            if out is not NotImplemented:
                return out
        out = func(*args, **kwargs)
        if packet in FORMULAS:
            kind, flops_of = FORMULAS[packet]
            flops = flops_of(out[0] if isinstance(out, tuple) else out, *args)
            self.by_op.setdefault(kind, 0)
            self.by_op[kind] += flops
            self.total += flops
        return out
