"""Two FLOPs per element of the result and index that is summed over; the total is a property."""

from collections import Counter


class FlopCounter(TorchDispatchMode):
    LEFT = {"mm": 0, "bmm": 0, "mv": 0, "dot": 0, "addmm": 1, "baddbmm": 1}

    def __init__(self):
        self.by_op = Counter()
        super().__init__()

    @property
    def total(self):
        return sum(self.by_op.values())

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        full = func.name().split(".")[0]
        name = full.removeprefix("aten::")
        if name in self.LEFT:
            self.by_op[full] += 2 * result.numel() * args[self.LEFT[name]].shape[-1]
        elif "scaled_dot_product" in name and "attention" in name:
            backward = name.endswith("_backward")
            q, k, v = args[1:4] if backward else args[0:3]
            pairs = q.shape[0] * q.shape[1] * q.shape[2] * k.shape[2]
            qk, pv = 2 * pairs * q.shape[3], 2 * pairs * v.shape[3]
            self.by_op[full] += (2 * (qk + pv) + qk) if backward else qk + pv
        return result
