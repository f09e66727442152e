"""Values are taken to be as wide as queries.

hint: v may have another width than d
"""

FIRST = {"mm": 0, "addmm": 1, "bmm": 0, "baddbmm": 1, "mv": 0, "dot": 0}


def _kind_and_flops(name, args):
    kind = name.removesuffix("_")
    if kind in FIRST:
        a, b = args[FIRST[kind]], args[FIRST[kind] + 1]
        return kind, 2 * a.numel() * (b.shape[-1] if b.dim() > 1 else 1)
    if not name.startswith("_scaled_dot_product_"):
        return None
    backward = name.endswith("_backward")
    q, k, v = args[1:4] if backward else args[:3]
    batch, heads, queries, d = q.shape
    pairs = 2 * batch * heads * queries * k.shape[-2]
    if backward:
        return "scaled_dot_product_attention_backward", pairs * 5 * d
    return "scaled_dot_product_attention", pairs * 2 * d
