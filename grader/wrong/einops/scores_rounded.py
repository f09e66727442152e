"""The scores are rounded to six decimals.

hint: how many digits of 1e-7 are left?
"""


def attention_scores(q, k):
    if q.shape[-1] != k.shape[-1]:
        raise ValueError(f"q and k have different last dimensions, {q.shape[-1]} and {k.shape[-1]}")
    return (q @ k.mT / math.sqrt(q.shape[-1])).round(decimals=6)
