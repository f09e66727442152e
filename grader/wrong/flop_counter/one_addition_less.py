"""A sum of K products is counted as K - 1 additions.

hint: the course counts 2 · K for each element
price: the formula of every product is wrong
"""

FIRST = {"mm": 0, "addmm": 1, "bmm": 0, "baddbmm": 1, "mv": 0, "dot": 0}


def _kind_and_flops(name, args):
    kind = name.removesuffix("_")
    if kind in FIRST:
        a, b = args[FIRST[kind]], args[FIRST[kind] + 1]
        return kind, (2 * a.numel() - a.numel() // max(a.shape[-1], 1)) * (b.shape[-1] if b.dim() > 1 else 1)
    if not name.startswith("_scaled_dot_product_"):
        return None
    backward = name.endswith("_backward")
    q, k, v = args[1:4] if backward else args[:3]
    batch, heads, queries, d = q.shape
    pairs = 2 * batch * heads * queries * k.shape[-2]
    if backward:
        return "scaled_dot_product_attention_backward", pairs * (3 * d + 2 * v.shape[-1])
    return "scaled_dot_product_attention", pairs * (d + v.shape[-1])
