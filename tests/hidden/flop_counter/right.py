# Right solutions of flop_counter in other styles; see grader/solutions/fragments.py.

# [matches_names] Matches names by hand, with two keys for attention and methods of its own to enter
# and exit.
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


# [overload_names] Lists events under their full names before they run, and adds them up when it is
# asked.
from collections import Counter


class FlopCounter(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.events = []

    @property
    def total(self):
        return sum(flops for _, flops in self.events)

    @property
    def by_op(self):
        out = Counter()
        for name, flops in self.events:
            out[name] += flops
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


# [packets_and_formulas] A decorator fills a table with a formula per overload; an operator is
# counted before it runs.
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
