"""The products are computed in float32, also those of float64 tensors.

hint: float64 has 16 digits, float32 has 7
"""


def attention_scores(q, k):
    if q.shape[-1] != k.shape[-1]:
        raise ValueError(f"q and k have different last dimensions, {q.shape[-1]} and {k.shape[-1]}")
    return (q.float() @ k.float().mT / math.sqrt(q.shape[-1])).to(q.dtype)
