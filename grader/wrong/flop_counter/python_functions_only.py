"""Calls of torch's Python functions are counted, so the backward pass is not.

hint: autograd calls no Python function: see what comes to __torch_dispatch__
"""


class FlopCounter(torch.overrides.TorchFunctionMode):
    def __init__(self):
        super().__init__()
        self.total = 0
        self.by_op = {}

    def __torch_function__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        name = func.__name__.strip("_")
        if name in ("matmul", "mm", "bmm", "mv", "dot", "linear", "rmatmul"):
            self._add("mm" if name in ("matmul", "linear") else name, 2 * result.numel() * args[0].shape[-1])
        elif name in ("addmm", "baddbmm"):
            self._add(name, 2 * result.numel() * args[1].shape[-1])
        elif name.endswith("scaled_dot_product_attention"):
            self._add(
                "scaled_dot_product_attention",
                2 * result.numel() // result.shape[-1] * args[1].shape[-2] * (args[0].shape[-1] + result.shape[-1]),
            )
        return result

    def _add(self, kind, flops):
        self.by_op[kind] = self.by_op.get(kind, 0) + flops
        self.total += flops
