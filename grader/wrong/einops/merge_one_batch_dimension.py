"""Exactly one leading dimension is taken.

hint: `...` stands for any number of leading dimensions
"""


def merge_heads(x):
    b, heads, seq, d = x.shape
    return x.permute(0, 2, 1, 3).reshape(b, seq, heads * d)
