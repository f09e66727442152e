"""Uses collections.Counter, computes the total on request, and decides before it runs."""

from collections import Counter


class FlopCounter(TorchDispatchMode):
    def __init__(self):
        self.by_op = Counter()
        super().__init__()

    @property
    def total(self):
        return sum(self.by_op.values())

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        name = func.name().split("::")[1].split(".")[0].rstrip("_")
        count = None
        if "attention" in name and name.startswith("_scaled_dot_product") and "math" not in name:
            count = self.count_attention
        elif name in ("mm", "bmm", "mv", "dot", "addmm", "baddbmm"):
            count = self.count_product
        else:
            with self:
                result = func.decompose(*args, **kwargs)
            if result is not NotImplemented:
                return result
        result = func(*args, **kwargs)
        if count:
            count(name, *args)
        return result

    def count_product(self, name, *args):
        a, b = args[1:3] if name.startswith(("add", "badd")) else args[:2]
        letters = {
            "mm": "mk,kn",
            "addmm": "mk,kn",
            "bmm": "bmk,bkn",
            "baddbmm": "bmk,bkn",
            "mv": "mk,k",
            "dot": "k,k",
        }[name]
        size = {}
        for axes, x in zip(letters.split(","), (a, b)):
            size.update(zip(axes, x.shape))
        self.by_op[name] += 2 * math.prod(size.values())

    def count_attention(self, name, *args):
        if "backward" in name:
            _, q, k, v = args[:4]
            self.by_op["scaled_dot_product_attention_backward"] += self.pairs(q, k) * (
                3 * q.size(-1) + 2 * v.size(-1)
            )
        else:
            q, k, v = args[:3]
            self.by_op["scaled_dot_product_attention"] += self.pairs(q, k) * (
                q.size(-1) + v.size(-1)
            )

    def pairs(self, q, k):
        return 2 * q.size(0) * q.size(1) * q.size(2) * k.size(2)
