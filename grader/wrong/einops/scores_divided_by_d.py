"""The products are divided by d itself.

hint: the root of d
"""


def attention_scores(q, k):
    if q.shape[-1] != k.shape[-1]:
        raise ValueError(f"q and k have different last dimensions, {q.shape[-1]} and {k.shape[-1]}")
    return q @ k.mT / q.shape[-1]
