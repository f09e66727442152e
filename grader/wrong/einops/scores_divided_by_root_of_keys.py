"""The products are divided by the root of the number of keys.

hint: d is what is summed over, the last dimension of q
"""


def attention_scores(q, k):
    if q.shape[-1] != k.shape[-1]:
        raise ValueError(f"q and k have different last dimensions, {q.shape[-1]} and {k.shape[-1]}")
    return q @ k.mT / math.sqrt(k.shape[-2])
