"""The products are computed in float32 and stay so.

hint: the result has q's dtype
"""


def attention_scores(q, k):
    if q.shape[-1] != k.shape[-1]:
        raise ValueError(f"q and k have different last dimensions, {q.shape[-1]} and {k.shape[-1]}")
    return q.float() @ k.float().mT / math.sqrt(q.shape[-1])
