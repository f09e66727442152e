"""The heads are merged without being moved behind the sequence first.

hint: which axes are neighbours in memory when you reshape?
"""


def merge_heads(x):
    *leading, heads, seq, d = x.shape
    return x.reshape(*leading, seq, heads * d)
