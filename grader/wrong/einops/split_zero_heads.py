"""No heads at all end in a ZeroDivisionError.

hint: what does einops say to heads = 0?
"""


def split_heads(x, heads):
    return rearrange(x, "... seq (heads d) -> ... heads seq d", heads=heads)
